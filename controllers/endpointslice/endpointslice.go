// Package endpointslice maintains the EndpointSlices of Services with a selector: the pods that are
// selected, by their addresses and ports, with their readiness.
package endpointslice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/endpoints"
	"flyball.dev/controllers/internal/events"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// managedBy is the value of the label managed-by of the slices.
//
//upstream:pkg/controller/endpointslice.ControllerName
const managedBy = "endpointslice-controller.k8s.io"

// AddToManager adds the controller.
//
//upstream:pkg/controller/endpointslice.NewController
func AddToManager(mgr manager.Manager) error {
	r := &reconciler{client: mgr.GetClient(), events: events.RecorderFor(mgr, "endpoint-slice-controller")}
	services := endpoints.NewSelectors()
	return builder.ControllerManagedBy(mgr).
		Named("endpointslice").
		Watches(&corev1.Service{}, services).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(services.Of),
			builder.WithPredicates(endpoints.PodChanged)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(zoneChanged)).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(endpoints.OfSlice(managedBy))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

// zoneChanged is a predicate for new and deleted nodes, and for nodes with another zone.
//
//upstream:pkg/controller/endpointslice.Controller.updateNode
var zoneChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetLabels()[corev1.LabelTopologyZone] != e.ObjectNew.GetLabels()[corev1.LabelTopologyZone]
}}

// reconciler reconciles the EndpointSlices of a Service.
type reconciler struct {
	client client.Client
	events record.EventRecorder
}

// all returns all Services with a selector, since a node can have pods of any.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &corev1.ServiceList{}
	if err := r.client.List(ctx, list); err != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if endpoints.Selects(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile updates the EndpointSlices of one Service. Those of a deleted Service are garbage
// collected.
//
//upstream:pkg/controller/endpointslice.Controller.syncService
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	svc := &corev1.Service{}
	if err := r.client.Get(ctx, req.NamespacedName, svc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !endpoints.Selects(svc) {
		return reconcile.Result{}, nil
	}
	pods, err := endpoints.Pods(ctx, r.client, svc)
	if err != nil {
		return reconcile.Result{}, err
	}
	zones, err := r.zones(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	existing, err := endpoints.Existing(ctx, r.client, req.NamespacedName, managedBy)
	if err != nil {
		return reconcile.Result{}, err
	}
	changes := slicesOf(svc, pods, zones, existing).Plan(existing)
	if svc.DeletionTimestamp != nil {
		changes.Create = nil // the garbage collector would delete them
	}
	if err = changes.Apply(ctx, r.client, "Service "+req.String()); err != nil {
		r.events.Eventf(svc, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices", "Error updating Endpoint Slices for Service %s: %v", req, err)
	}
	return reconcile.Result{}, err
}

// zones returns the zone of each node, "" if it has none.
func (r *reconciler) zones(ctx context.Context) (map[string]string, error) {
	list := &corev1.NodeList{}
	if err := r.client.List(ctx, list); err != nil {
		return nil, err
	}
	zones := map[string]string{}
	for i := range list.Items {
		zones[list.Items[i].Name] = list.Items[i].Labels[corev1.LabelTopologyZone]
	}
	return zones, nil
}
