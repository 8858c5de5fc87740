// Package controller has the controller of AppServices, which creates a Deployment and a Service
// for each.
package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

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

// nameTakenInterval is how often a name that is taken is tried again. There is no event to wait for:
// the object that has the name is not ours.
const nameTakenInterval = 30 * time.Second

// AppServiceReconciler reconciles the Deployment and the Service of each AppService.
type AppServiceReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=app.example.com,resources=appservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.example.com,resources=appservices/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=app.example.com,resources=appservices/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;update
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
	if taken := (*nameTakenError)(nil); errors.As(err, &taken) {
		// A retry with backoff would not help.
		return ctrl.Result{RequeueAfter: nameTakenInterval},
			r.updateStatus(ctx, app, deployment, notReady("NameTaken", err.Error()))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err // the cache was behind: the next reconcile sees the object
	}
	if err != nil {
		// It is retried with backoff. The user sees in the status why.
		return ctrl.Result{}, errors.Join(err,
			r.updateStatus(ctx, app, deployment, notReady("ReconcileFailed", err.Error())))
	}
	return ctrl.Result{}, r.updateStatus(ctx, app, deployment, readiness(app, deployment))
}

// reconcileDeployment creates the Deployment, or restores its replicas and image. It returns the
// Deployment as it is, also with an error; its status is empty if the AppService has none.
func (r *AppServiceReconciler) reconcileDeployment(ctx context.Context,
	app *appv1.AppService) (*appsv1.Deployment, error) {
	wanted := deploymentFor(app)
	found := &appsv1.Deployment{}
	if created, err := r.createIfMissing(ctx, app, wanted, found); created || err != nil {
		return wanted, err
	}
	container := containerOf(&found.Spec.Template.Spec)
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
		return found, err
	}
	r.Recorder.Eventf(app, found, corev1.EventTypeNormal, "DriftCorrected", "Update", "Deployment %s: %s",
		found.Name, change)
	return found, nil
}

// containerOf returns the container of the application, which it adds if somebody has removed it.
// There may be others, such as sidecars, in any order.
func containerOf(pod *corev1.PodSpec) *corev1.Container {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == containerName })
	if i < 0 {
		i = len(pod.Containers)
		pod.Containers = append(pod.Containers, corev1.Container{Name: containerName})
	}
	return &pod.Containers[i]
}

// reconcileService creates the Service, or restores its selector and its port.
func (r *AppServiceReconciler) reconcileService(ctx context.Context, app *appv1.AppService) error {
	wanted := serviceFor(app)
	found := &corev1.Service{}
	if created, err := r.createIfMissing(ctx, app, wanted, found); created || err != nil {
		return err
	}
	before := found.Spec.DeepCopy()
	found.Spec.Selector = wanted.Spec.Selector
	if len(found.Spec.Ports) == 1 { // a user may have changed the type, and the server chosen a node port
		wanted.Spec.Ports[0].NodePort = found.Spec.Ports[0].NodePort
	}
	found.Spec.Ports = wanted.Spec.Ports
	if equality.Semantic.DeepEqual(before, &found.Spec) {
		return nil
	}
	log.FromContext(ctx).Info("Drift detected. Updating Service.")
	return r.Update(ctx, found)
}

// createIfMissing reads the object with the name of wanted into found. If there is none, it creates
// wanted, with app as its controller.
func (r *AppServiceReconciler) createIfMissing(ctx context.Context, app *appv1.AppService, wanted,
	found client.Object) (created bool, err error) {
	err = r.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	if err == nil && !metav1.IsControlledBy(found, app) {
		return false, &nameTakenError{wanted}
	}
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	if err := ctrl.SetControllerReference(app, wanted, r.Scheme); err != nil {
		return false, err
	}
	//flyball:ignore createrace Reconcile handles AlreadyExists
	if err := r.Create(ctx, wanted); err != nil {
		return false, err
	}
	kind := kindOf(wanted)
	log.FromContext(ctx).Info(kind + " created.")
	r.Recorder.Eventf(app, wanted, corev1.EventTypeNormal, "Created", "Create", "%s %s", kind, wanted.GetName())
	return true, nil
}

// nameTakenError is the error if a name is taken by an object that the AppService does not control.
type nameTakenError struct{ wanted client.Object }

func (e *nameTakenError) Error() string {
	return fmt.Sprintf("the %s %s exists and is not controlled by the AppService", kindOf(e.wanted), e.wanted.GetName())
}

// kindOf returns the kind of an object, which its type meta does not say after it was read.
func kindOf(o client.Object) string { return reflect.TypeOf(o).Elem().Name() }

// problems are the reasons of the condition Ready that are warnings.
var problems = []string{"NameTaken", "ReconcileFailed", "ReplicaFailure"}

// updateStatus updates the status if it has changed.
func (r *AppServiceReconciler) updateStatus(ctx context.Context, app *appv1.AppService, d *appsv1.Deployment,
	ready metav1.Condition) error {
	before := app.Status.DeepCopy()
	app.Status.ReadyReplicas = d.Status.ReadyReplicas
	app.Status.ObservedGeneration = app.Generation
	ready.ObservedGeneration = app.Generation
	was := meta.FindStatusCondition(before.Conditions, ready.Type)
	meta.SetStatusCondition(&app.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before, &app.Status) {
		return nil
	}
	if err := r.Status().Update(ctx, app); err != nil {
		return err
	}
	if was == nil || was.Reason != ready.Reason {
		log.FromContext(ctx).Info("Ready is "+string(ready.Status)+".", "because", ready.Message)
		kind := corev1.EventTypeNormal
		if slices.Contains(problems, ready.Reason) {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(app, nil, kind, ready.Reason, "Observe", "%s", ready.Message)
	}
	return nil
}

// readiness returns the condition Ready, which follows from the Deployment.
func readiness(app *appv1.AppService, d *appsv1.Deployment) metav1.Condition {
	want := app.Spec.Replicas
	message := fmt.Sprintf("%d/%d replicas are ready", d.Status.ReadyReplicas, want)
	switch {
	case failureOf(d) != "": // otherwise only its events would say so
		return notReady("ReplicaFailure", failureOf(d))
	case d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != want || d.Status.Replicas != want:
		return notReady("RollingOut", "the Deployment is rolling out, "+message)
	case d.Status.ReadyReplicas != want:
		return notReady("ReplicasNotReady", message)
	}
	return metav1.Condition{Type: appv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "AllReplicasReady",
		Message: message}
}

// failureOf says why a Deployment cannot create pods, or returns "".
func failureOf(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

func notReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

const (
	containerName = "app"
	port          = 80
)

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
					Name:  containerName,
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
			Ports: []corev1.ServicePort{{Name: "http", Port: port, TargetPort: intstr.FromString("http"),
				Protocol: corev1.ProtocolTCP}},
		},
	}
}
