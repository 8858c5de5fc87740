// Package controller has the controller of MLModelDeployments, which creates a Deployment and a
// Service for each.
package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/log"
	mlv1 "flyball.dev/examples/mlmodel/api/v1"
)

// nameTakenRetry is after how long a name that is taken is tried again. There is no event to wait
// for: the object that has the name is not ours.
const nameTakenRetry = time.Minute

// MLModelDeploymentReconciler reconciles the Deployment and the Service of each MLModelDeployment.
type MLModelDeploymentReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=ml.example.com,resources=mlmodeldeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=ml.example.com,resources=mlmodeldeployments/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=ml.example.com,resources=mlmodeldeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to the manager.
func (r *MLModelDeploymentReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&mlv1.MLModelDeployment{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Named("mlmodel").
		Complete(r)
}

// Reconcile creates or updates the Deployment and the Service of one MLModelDeployment, and updates
// its status. It writes only what differs: called again, it writes nothing.
func (r *MLModelDeploymentReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	model := &mlv1.MLModelDeployment{}
	if err := r.Get(ctx, req.NamespacedName, model); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !model.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // its dependents are garbage collected
	}
	deployment, err := r.reconcileDeployment(ctx, model)
	if err == nil {
		err = r.reconcileService(ctx, model)
	}
	if taken := (*nameTakenError)(nil); errors.As(err, &taken) {
		ready := notReady("NameTaken", err.Error())
		return ctrl.Result{RequeueAfter: nameTakenRetry}, r.updateStatus(ctx, model, deployment, ready)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err // the cache was behind: the next reconcile sees the object
	}
	if err != nil {
		// It is retried with backoff. The user sees in the status why.
		ready := notReady("ReconcileFailed", err.Error())
		return ctrl.Result{}, errors.Join(err, r.updateStatus(ctx, model, deployment, ready))
	}
	return ctrl.Result{}, r.updateStatus(ctx, model, deployment, readiness(model, deployment))
}

// reconcileDeployment creates the Deployment, or restores the fields that the operator decides.
func (r *MLModelDeploymentReconciler) reconcileDeployment(ctx context.Context,
	model *mlv1.MLModelDeployment) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: model.Namespace, Name: model.Name}}
	return deployment, r.createOrUpdate(ctx, model, deployment, func() { setDeployment(deployment, model) })
}

// reconcileService creates the Service, or restores the fields that the operator decides.
func (r *MLModelDeploymentReconciler) reconcileService(ctx context.Context, model *mlv1.MLModelDeployment) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: model.Namespace, Name: model.Name}}
	return r.createOrUpdate(ctx, model, service, func() { setService(service, model) })
}

// createOrUpdate creates an object of the model with the fields that set sets, or updates it if any
// of them differs. It does not touch an object that the model does not control.
func (r *MLModelDeploymentReconciler) createOrUpdate(ctx context.Context, model *mlv1.MLModelDeployment,
	obj client.Object, set func()) error {
	gvk, err := r.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	result, err := ctrl.CreateOrUpdate(ctx, r.Client, obj, func() error {
		if obj.GetUID() != "" && !metav1.IsControlledBy(obj, model) {
			return &nameTakenError{gvk.Kind, obj.GetName()}
		}
		set()
		return ctrl.SetControllerReference(model, obj, r.Scheme)
	})
	if err != nil {
		return err
	}
	switch result {
	case controllerutil.OperationResultCreated:
		log.FromContext(ctx).Info(gvk.Kind + " created.")
		r.Recorder.Eventf(model, obj, corev1.EventTypeNormal, "Created", "Create", "%s %s created", gvk.Kind, obj.GetName())
	case controllerutil.OperationResultUpdated:
		log.FromContext(ctx).Info(gvk.Kind + " updated.")
		r.Recorder.Eventf(model, obj, corev1.EventTypeNormal, "Updated", "Update", "%s %s updated", gvk.Kind, obj.GetName())
	}
	return nil
}

// nameTakenError is the error if a name is taken by an object that the model does not control.
type nameTakenError struct{ kind, name string }

func (e *nameTakenError) Error() string {
	return fmt.Sprintf("the %s %s exists and is not controlled by the MLModelDeployment", e.kind, e.name)
}
