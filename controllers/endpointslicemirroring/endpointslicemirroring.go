// Package endpointslicemirroring mirrors the Endpoints of Services without a selector, which are
// created by users, in EndpointSlices, for clients that read only those.
//
//lint:file-ignore SA1019 The controller reads the deprecated kind Endpoints.
package endpointslicemirroring

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	utilnet "k8s.io/utils/net"

	"flyball.dev/controllers/internal/endpoints"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

const (
	// managedBy is the value of the label managed-by of the slices.
	//
	//upstream:pkg/controller/endpointslicemirroring.ControllerName
	managedBy = "endpointslicemirroring-controller.k8s.io"
	// limit is the highest number of addresses that are mirrored of a subset.
	//
	//upstream:pkg/controller/endpointslicemirroring/config/v1alpha1.RecommendedDefaultEndpointSliceMirroringControllerConfiguration
	limit = 1000
)

// AddToManager adds the controller.
//
//upstream:pkg/controller/endpointslicemirroring.NewController
func AddToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("endpointslicemirroring").
		For(&corev1.Endpoints{}).
		Watches(&corev1.Service{}, &handler.EnqueueRequestForObject{}).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(endpoints.OfSlice(managedBy))).
		Complete(&reconciler{mgr.GetClient()})
}

// reconciler reconciles the EndpointSlices that mirror Endpoints.
type reconciler struct{ client client.Client }

// Reconcile updates the mirror of the Endpoints of one Service, or deletes it.
//
//upstream:pkg/controller/endpointslicemirroring.Controller.syncEndpoints
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	svc, e := &corev1.Service{}, &corev1.Endpoints{}
	if err := r.client.Get(ctx, req.NamespacedName, svc); apierrors.IsNotFound(err) {
		svc = nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.client.Get(ctx, req.NamespacedName, e); apierrors.IsNotFound(err) {
		e = nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	existing, err := endpoints.Existing(ctx, r.client, req.NamespacedName, managedBy)
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted := slicesOf(svc, e)
	changes := wanted.Plan(existing)
	return reconcile.Result{}, changes.Apply(ctx, r.client)
}

// slicesOf returns the EndpointSlices that mirror Endpoints, none if they are not to be mirrored.
// Either argument is nil if it does not exist.
//
//upstream:pkg/controller/endpointslicemirroring.reconciler.reconcile
//upstream:pkg/controller/endpointslicemirroring.newEndpointSlice
func slicesOf(svc *corev1.Service, e *corev1.Endpoints) *endpoints.Slices {
	s := &endpoints.Slices{Limit: limit}
	if svc == nil || svc.Spec.Selector != nil || e == nil || e.DeletionTimestamp != nil || skipped(e) {
		return s
	}
	s.Meta = endpoints.SlicesMeta(e, metav1.NewControllerRef(e, corev1.SchemeGroupVersion.WithKind("Endpoints")), managedBy, "")
	s.Meta.Annotations = maps.Clone(e.Annotations)
	delete(s.Meta.Annotations, corev1.EndpointsLastChangeTriggerTime)
	delete(s.Meta.Annotations, corev1.LastAppliedConfigAnnotation)
	for i := range e.Subsets {
		addSubset(&s.Groups, &e.Subsets[i])
	}
	return s
}

// skipped reports whether Endpoints ask not to be mirrored, or are a lock of a leader election.
//
//upstream:pkg/controller/endpointslicemirroring.Controller.shouldMirror
func skipped(e *corev1.Endpoints) bool {
	_, isLock := e.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	return isLock || e.Labels[discoveryv1.LabelSkipMirror] == "true"
}

// addSubset adds the addresses of a subset, up to the limit, those that are ready first.
//
//upstream:pkg/controller/endpointslicemirroring.reconciler.reconcile
//upstream:pkg/controller/endpointslicemirroring.epPortsToEpsPorts
func addSubset(groups *endpoints.Groups, subset *corev1.EndpointSubset) {
	var ports []discoveryv1.EndpointPort
	for i := range subset.Ports {
		p := &subset.Ports[i]
		ports = append(ports, discoveryv1.EndpointPort{
			Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol,
		})
	}
	left := limit
	add := func(addresses []corev1.EndpointAddress, ready bool) {
		for i := range min(len(addresses), left) {
			family := discoveryv1.AddressTypeIPv4
			if utilnet.IsIPv6String(addresses[i].IP) {
				family = discoveryv1.AddressTypeIPv6
			}
			groups.Add(family, ports, endpointOf(&addresses[i], ready))
		}
		left -= min(len(addresses), left)
	}
	add(subset.Addresses, true)
	add(subset.NotReadyAddresses, false)
}

// endpointOf returns the endpoint for an address.
//
//upstream:pkg/controller/endpointslicemirroring.addressToEndpoint
func endpointOf(a *corev1.EndpointAddress, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{a.IP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef: a.TargetRef, NodeName: a.NodeName,
	}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	return e
}
