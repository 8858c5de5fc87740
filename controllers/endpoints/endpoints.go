// Package endpoints maintains the Endpoints of Services with a selector, for clients that do not
// read EndpointSlices.
package endpoints

//lint:file-ignore SA1019 The controller maintains the deprecated kind Endpoints.

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/endpoints"
	"flyball.dev/controllers/internal/watches"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// AddToManager adds the controller. Endpoints that somebody changes stay so until something else
// changes, as in kube-controller-manager.
//
//upstream:pkg/controller/endpoint.NewEndpointController
func AddToManager(mgr manager.Manager) error {
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorderFor(managedBy)}
	services := endpoints.NewSelectors()
	return builder.ControllerManagedBy(mgr).
		Named("endpoints").
		Watches(&corev1.Service{}, services).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(services.Of),
			builder.WithPredicates(endpoints.PodChanged)).
		Watches(&corev1.Endpoints{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(leftOrDeleted())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

// leftOrDeleted returns a predicate for deleted Endpoints, and at the start for all of an earlier run but locks of leader elections,
// as the Service of Endpoints may have been deleted while no controller ran. Endpoints that somebody creates during the start may
// be earlier than their Service.
//
//upstream:pkg/controller/endpoint.Controller.checkLeftoverEndpoints
func leftOrDeleted() predicate.Funcs {
	second := time.Now().Truncate(time.Second) // as creation timestamps
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			_, isLock := e.Object.GetAnnotations()[resourcelock.LeaderElectionRecordAnnotationKey]
			return e.IsInInitialList && !isLock && e.Object.GetCreationTimestamp().Time.Before(second)
		},
		UpdateFunc:  watches.OnlyDeletes.UpdateFunc,
		GenericFunc: watches.OnlyDeletes.GenericFunc,
	}
}

// reconciler reconciles the Endpoints of a Service.
type reconciler struct {
	client client.Client
	live   client.Reader
	events record.EventRecorder
}

// Reconcile creates or updates the Endpoints of one Service, or deletes them with the Service.
//
//upstream:pkg/controller/endpoint.Controller.syncService
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	svc := &corev1.Service{}
	err := r.client.Get(ctx, req.NamespacedName, svc)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, r.delete(ctx, req)
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
		err = r.create(ctx, wanted)
	case !equality.Semantic.DeepEqual(current, wanted):
		err = r.update(ctx, wanted)
	}
	return reconcile.Result{}, err
}

// create creates Endpoints. In a namespace that is terminating nothing can be created, which is no error.
//
//upstream:pkg/controller/endpoint.Controller.syncService
func (r *reconciler) create(ctx context.Context, e *corev1.Endpoints) error {
	err := r.client.Create(ctx, e)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil {
		r.events.Eventf(e, corev1.EventTypeWarning, "FailedToCreateEndpoint", "Failed to create endpoint for service %s/%s: %v", e.Namespace, e.Name, err)
	}
	return err
}

// update updates Endpoints. If they do not exist any more, their deletion causes another reconcile. A conflict may be with the
// controller's own write, which the cache does not have yet, so no event reports it.
//
//upstream:pkg/controller/endpoint.Controller.syncService
func (r *reconciler) update(ctx context.Context, e *corev1.Endpoints) error {
	err := client.IgnoreNotFound(r.client.Update(ctx, e))
	if err != nil && !apierrors.IsConflict(err) {
		r.events.Eventf(e, corev1.EventTypeWarning, "FailedToUpdateEndpoint", "Failed to update endpoint %s/%s: %v", e.Namespace, e.Name, err)
	}
	return err
}

// delete deletes the Endpoints of a Service that does not exist. If the Service was created again, they
// may be its new ones, which nothing restores if they are not made from pods; so a live read confirms
// that it does not exist, after the Endpoints to be deleted were read.
//
//upstream:pkg/controller/endpoint.Controller.syncService
func (r *reconciler) delete(ctx context.Context, req reconcile.Request) error {
	e := &corev1.Endpoints{}
	if err := r.client.Get(ctx, req.NamespacedName, e); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := r.live.Get(ctx, req.NamespacedName, &corev1.Service{}); !apierrors.IsNotFound(err) {
		return err
	}
	return client.IgnoreNotFound(r.client.Delete(ctx, e,
		client.Preconditions{UID: &e.UID, ResourceVersion: &e.ResourceVersion}))
}
