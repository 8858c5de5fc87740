// Package endpoints maintains the Endpoints of Services with a selector, for clients that do not
// read EndpointSlices.
package endpoints

//lint:file-ignore SA1019 The controller maintains the deprecated kind Endpoints.

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/endpoints"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// AddToManager adds the controller.
func AddToManager(mgr manager.Manager) error {
	r, services := &reconciler{client: mgr.GetClient()}, endpoints.NewSelectors()
	return builder.ControllerManagedBy(mgr).
		Named("endpoints").
		Watches(&corev1.Service{}, services).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(services.Of),
			builder.WithPredicates(endpoints.PodChanged)).
		Watches(&corev1.Endpoints{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(onlyDeletes)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

// onlyDeletes is a predicate for delete events: Endpoints that somebody changes stay so until
// something else changes, as in kube-controller-manager.
var onlyDeletes = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// reconciler reconciles the Endpoints of a Service.
type reconciler struct{ client client.Client }

// Reconcile creates or updates the Endpoints of one Service, or deletes them with the Service.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	svc := &corev1.Service{}
	err := r.client.Get(ctx, req.NamespacedName, svc)
	if apierrors.IsNotFound(err) {
		e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
		return reconcile.Result{}, client.IgnoreNotFound(r.client.Delete(ctx, e))
	}
	if err != nil || !endpoints.Selects(svc) {
		return reconcile.Result{}, err
	}
	pods, err := endpoints.Pods(ctx, r.client, svc)
	if err != nil {
		return reconcile.Result{}, err
	}
	current := &corev1.Endpoints{}
	err = r.client.Get(ctx, req.NamespacedName, current)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	wanted := endpointsOf(svc, pods, current)
	switch {
	case err != nil:
		err = r.client.Create(ctx, wanted)
	case !equality.Semantic.DeepEqual(current, wanted):
		err = r.client.Update(ctx, wanted)
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		err = nil // nothing can be created in the namespace
	}
	return reconcile.Result{}, err
}
