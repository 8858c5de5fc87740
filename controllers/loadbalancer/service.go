// Package loadbalancer gives addresses to Services of the type LoadBalancer, and to Ingresses, as a cloud and an ingress
// controller do. Nothing listens on the addresses.
package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/restore"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// Finalizer keeps a Service until its load balancer is deleted.
//
//upstream:k8s.io/cloud-provider/service/helpers.LoadBalancerCleanupFinalizer
const Finalizer = "service.kubernetes.io/load-balancer-cleanup"

// AddServicesToManager adds the controller of Services.
//
//upstream:k8s.io/cloud-provider/controllers/service.New
func AddServicesToManager(mgr manager.Manager) error {
	r := &serviceReconciler{client: mgr.GetClient(), recorder: events.RecorderFor(mgr, "service-controller")}
	return builder.ControllerManagedBy(mgr).
		Named("service-lb").
		For(&corev1.Service{}).
		WatchesRawSource(source.Func(r.start)).
		Complete(r)
}

// serviceReconciler reconciles Services.
type serviceReconciler struct {
	client    client.Client
	recorder  record.EventRecorder
	addresses *addresses // created by start
	restored  restore.Once
}

// start is a source. It enqueues the Services that wait for an address when the address is free.
func (r *serviceReconciler) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.addresses = newAddresses(func(waiting types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: waiting}) })
	return nil
}

// Reconcile gives a Service an address, or takes it away.
//
//upstream:k8s.io/cloud-provider/controllers/service.Controller.syncLoadBalancerIfNeeded
func (r *serviceReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s := &corev1.Service{}
	if err := r.client.Get(ctx, req.NamespacedName, s); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.addresses.release(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if s.Spec.LoadBalancerClass != nil { // another implementation has it, and may use the same finalizer
		r.addresses.release(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err := r.restored.Do(ctx, r.restore); err != nil {
		return reconcile.Result{}, err
	}
	if !wanted(s) || needsCleanup(s) {
		return reconcile.Result{}, client.IgnoreNotFound(r.clean(ctx, s))
	}
	if s.DeletionTimestamp != nil { // other finalizers keep it
		r.addresses.release(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	want, err := r.balance(s)
	if err != nil {
		r.recorder.Eventf(s, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: failed to ensure load balancer: %v", err)
		return reconcile.Result{}, nil // a change of the Service is another attempt, and so is an address that is freed
	}
	return reconcile.Result{}, client.IgnoreNotFound(r.ensure(ctx, s, want))
}

// wanted reports whether a Service wants a load balancer.
//
//upstream:k8s.io/cloud-provider/controllers/service.wantsLoadBalancer
func wanted(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil
}

// needsCleanup reports whether a Service has a load balancer that is to be deleted.
//
//upstream:k8s.io/cloud-provider/controllers/service.needsCleanup
func needsCleanup(s *corev1.Service) bool {
	return slices.Contains(s.Finalizers, Finalizer) && (s.DeletionTimestamp != nil || s.Spec.Type != corev1.ServiceTypeLoadBalancer)
}

// restore notes the addresses that Services have in their status.
func (r *serviceReconciler) restore(ctx context.Context) error {
	all := &corev1.ServiceList{}
	if err := r.client.List(ctx, all); err != nil {
		return err
	}
	for i := range all.Items {
		s := &all.Items[i]
		if address, ok := addressOf(s); ok && wanted(s) {
			_ = r.addresses.use(client.ObjectKeyFromObject(s), address) // the first one keeps an address that two have
		}
	}
	return nil
}

// addressOf returns the address in the status of a Service.
func addressOf(s *corev1.Service) (netip.Addr, bool) {
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(s.Status.LoadBalancer.Ingress[0].IP)
	return address, err == nil
}

// balance returns the status of the load balancer of a Service: the address that it asks for, or one of the network. The source
// ranges, which the API server has validated, do not matter, since nothing connects to the address.
func (r *serviceReconciler) balance(s *corev1.Service) (corev1.LoadBalancerStatus, error) {
	status, key := corev1.LoadBalancerStatus{}, client.ObjectKeyFromObject(s)
	address := netip.Addr{}
	if text := s.Spec.LoadBalancerIP; text != "" {
		var err error
		if address, err = netip.ParseAddr(text); err != nil {
			return status, fmt.Errorf("spec.loadBalancerIP: %w", err)
		}
		if address.Is4In6() || address.Zone() != "" { // the API server takes neither in a status
			return status, fmt.Errorf("spec.loadBalancerIP: %s is not the usual form of an address", text)
		}
		if err := r.addresses.use(key, address); err != nil {
			return status, err
		}
	} else {
		var err error
		if address, err = r.addresses.allocate(key); err != nil {
			return status, err
		}
	}
	status.Ingress = []corev1.LoadBalancerIngress{{IP: address.String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
	return status, nil
}

// ensure adds the finalizer to a Service, and sets its status.
func (r *serviceReconciler) ensure(ctx context.Context, s *corev1.Service, want corev1.LoadBalancerStatus) error {
	if slices.Contains(s.Finalizers, Finalizer) && equality.Semantic.DeepEqual(s.Status.LoadBalancer, want) {
		return nil
	}
	r.recorder.Event(s, corev1.EventTypeNormal, "EnsuringLoadBalancer", "Ensuring load balancer")
	if !slices.Contains(s.Finalizers, Finalizer) {
		err := r.patch(ctx, s, func() { s.Finalizers = append(s.Finalizers, Finalizer) })
		if err != nil {
			return err
		}
	}
	if err := r.patch(ctx, s, func() { s.Status.LoadBalancer = want }); err != nil {
		return err
	}
	r.recorder.Event(s, corev1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	return nil
}

// clean takes the address and the finalizer away from a Service.
func (r *serviceReconciler) clean(ctx context.Context, s *corev1.Service) error {
	had := slices.Contains(s.Finalizers, Finalizer)
	if !had && len(s.Status.LoadBalancer.Ingress) == 0 {
		r.addresses.release(client.ObjectKeyFromObject(s))
		return nil
	}
	if had {
		r.recorder.Event(s, corev1.EventTypeNormal, "DeletingLoadBalancer", "Deleting load balancer")
	}
	err := r.patch(ctx, s, func() {
		s.Finalizers = slices.DeleteFunc(slices.Clone(s.Finalizers), func(f string) bool { return f == Finalizer })
		s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	})
	if err != nil {
		return err
	}
	r.addresses.release(client.ObjectKeyFromObject(s))
	if had {
		r.recorder.Event(s, corev1.EventTypeNormal, "DeletedLoadBalancer", "Deleted load balancer")
	}
	return nil
}

// patch changes the finalizers or the status of a Service through the subresource status, as upstream does. The role of
// the controller allows no more.
//
//upstream:k8s.io/cloud-provider/service/helpers.PatchService
func (r *serviceReconciler) patch(ctx context.Context, s *corev1.Service, change func()) error {
	before := s.DeepCopy()
	change()
	return r.client.Status().Patch(ctx, s, client.StrategicMergeFrom(before))
}
