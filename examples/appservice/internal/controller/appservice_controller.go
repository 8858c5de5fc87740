// Package controller has the controller of AppServices, which creates a Deployment and a Service
// for each.
package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
	appv1 "flyball.dev/examples/appservice/api/v1"
)

// AppServiceReconciler reconciles the Deployment and the Service of each AppService.
type AppServiceReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=app.example.com,resources=appservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.example.com,resources=appservices/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to the manager.
func (r *AppServiceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&appv1.AppService{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Named("appservice").
		Complete(r)
}

// Reconcile creates or updates the Deployment and the Service of one AppService, and updates its
// status.
func (r *AppServiceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &appv1.AppService{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !app.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // its dependents are garbage collected
	}
	deployment, err := r.reconcileDeployment(ctx, app)
	if err == nil {
		err = r.reconcileService(ctx, app)
	}
	if notOwned := (*notOwnedError)(nil); errors.As(err, &notOwned) {
		// A retry with backoff would not help.
		return ctrl.Result{}, r.updateStatus(ctx, app, 0, notReady("NameTaken", err.Error()))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.updateStatus(ctx, app, deployment.Status.ReadyReplicas, readiness(app, deployment))
}

// reconcileDeployment creates the Deployment, or restores its replicas and image.
func (r *AppServiceReconciler) reconcileDeployment(ctx context.Context,
	app *appv1.AppService) (*appsv1.Deployment, error) {
	wanted := deploymentFor(app)
	found := &appsv1.Deployment{}
	if created, err := r.createIfMissing(ctx, app, wanted, found); created || err != nil {
		return wanted, err
	}
	container := &found.Spec.Template.Spec.Containers[0]
	var drift []string
	if *found.Spec.Replicas != app.Spec.Replicas {
		drift = append(drift, fmt.Sprintf("replicas %d -> %d", *found.Spec.Replicas, app.Spec.Replicas))
		found.Spec.Replicas = wanted.Spec.Replicas
	}
	if container.Image != app.Spec.Image {
		drift = append(drift, fmt.Sprintf("image %s -> %s", container.Image, app.Spec.Image))
		container.Image = app.Spec.Image
	}
	if len(drift) == 0 {
		return found, nil
	}
	change := strings.Join(drift, ", ")
	log.FromContext(ctx).Info("Drift detected. Updating Deployment.", "change", change)
	if err := r.Update(ctx, found); err != nil {
		return nil, err
	}
	r.Recorder.Eventf(app, found, corev1.EventTypeNormal, "DriftCorrected", "Update", "Deployment %s: %s",
		found.Name, change)
	return found, nil
}

// reconcileService creates the Service, or restores its selector.
func (r *AppServiceReconciler) reconcileService(ctx context.Context, app *appv1.AppService) error {
	wanted := serviceFor(app)
	found := &corev1.Service{}
	if created, err := r.createIfMissing(ctx, app, wanted, found); created || err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(found.Spec.Selector, wanted.Spec.Selector) {
		return nil
	}
	log.FromContext(ctx).Info("Drift detected. Updating Service.")
	found.Spec.Selector = wanted.Spec.Selector
	return r.Update(ctx, found)
}

// createIfMissing reads the object with the name of wanted into found. If there is none, it creates
// wanted, with app as its controller.
func (r *AppServiceReconciler) createIfMissing(ctx context.Context, app *appv1.AppService, wanted,
	found client.Object) (created bool, err error) {
	err = r.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	if err == nil && !metav1.IsControlledBy(found, app) {
		return false, &notOwnedError{found}
	}
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	if err := ctrl.SetControllerReference(app, wanted, r.Scheme); err != nil {
		return false, err
	}
	if err := r.Create(ctx, wanted); err != nil {
		return false, err
	}
	kind := kindOf(wanted)
	log.FromContext(ctx).Info(kind + " created.")
	r.Recorder.Eventf(app, wanted, corev1.EventTypeNormal, "Created", "Create", "%s %s", kind, wanted.GetName())
	return true, nil
}

// notOwnedError is the error if a name is taken by an object that the AppService does not control.
type notOwnedError struct{ object client.Object }

func (e *notOwnedError) Error() string {
	return fmt.Sprintf("the %s %s exists and is not controlled by the AppService", kindOf(e.object), e.object.GetName())
}

func kindOf(o client.Object) string {
	if _, ok := o.(*appsv1.Deployment); ok {
		return "Deployment"
	}
	return "Service"
}

// updateStatus updates the status if it has changed.
func (r *AppServiceReconciler) updateStatus(ctx context.Context, app *appv1.AppService, readyReplicas int32,
	ready metav1.Condition) error {
	before := app.Status.DeepCopy()
	app.Status.ReadyReplicas = readyReplicas
	app.Status.ObservedGeneration = app.Generation
	ready.ObservedGeneration = app.Generation
	changed := !meta.IsStatusConditionPresentAndEqual(app.Status.Conditions, ready.Type, ready.Status)
	meta.SetStatusCondition(&app.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before, &app.Status) {
		return nil
	}
	if err := r.Status().Update(ctx, app); err != nil {
		return err
	}
	if changed {
		log.FromContext(ctx).Info("Ready is "+string(ready.Status)+".", "because", ready.Message)
		r.Recorder.Eventf(app, nil, corev1.EventTypeNormal, ready.Reason, "Observe", "%s", ready.Message)
	}
	return nil
}

// readiness returns the condition Ready, which follows from the Deployment.
func readiness(app *appv1.AppService, d *appsv1.Deployment) metav1.Condition {
	want := app.Spec.Replicas
	message := fmt.Sprintf("%d/%d replicas are ready", d.Status.ReadyReplicas, want)
	switch {
	case d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != want || d.Status.Replicas != want:
		return notReady("RollingOut", "the Deployment is rolling out, "+message)
	case d.Status.ReadyReplicas != want:
		return notReady("ReplicasNotReady", message)
	}
	return metav1.Condition{Type: appv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "AllReplicasReady",
		Message: message}
}

func notReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

const port = 80

func labelsFor(app *appv1.AppService) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "appservice", "app.kubernetes.io/instance": app.Name}
}

// deploymentFor returns the Deployment of an AppService.
func deploymentFor(app *appv1.AppService) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name, Labels: labelsFor(app)},
		Spec: appsv1.DeploymentSpec{
			Replicas: &app.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labelsFor(app)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labelsFor(app)},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  "app",
					Image: app.Spec.Image,
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port}},
				}}},
			},
		},
	}
}

// serviceFor returns the Service of an AppService.
func serviceFor(app *appv1.AppService) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name, Labels: labelsFor(app)},
		Spec: corev1.ServiceSpec{
			Selector: labelsFor(app),
			Ports:    []corev1.ServicePort{{Name: "http", Port: port, TargetPort: intstr.FromString("http")}},
		},
	}
}
