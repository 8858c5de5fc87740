// Package servicecidr protects ServiceCIDRs from deletion while Services have addresses in them, and sets their
// condition Ready.
package servicecidr

import (
	"context"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/networking/v1"

	"flyball.dev/controllers/internal/watches"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// finalizer protects a ServiceCIDR.
//
//upstream:pkg/controller/servicecidrs.ServiceCIDRProtectionFinalizer
const finalizer = "networking.k8s.io/service-cidr-finalizer"

// gracePeriod is the time that a ServiceCIDR stays after its deletion, for writes of Services that began before.
//
//upstream:pkg/controller/servicecidrs.deletionGracePeriod
const gracePeriod = 10 * time.Second

// addressManager is the value of the label of the IPAddresses of services.
//
//upstream:pkg/registry/core/service/ipallocator.ControllerName
const addressManager = "ipallocator.k8s.io"

// fieldManager is the manager of the condition.
//
//upstream:pkg/controller/servicecidrs.controllerName
const fieldManager = "service-cidr-controller"

// AddToManager adds the controller. A ServiceCIDR that is deleted is reconciled again when an address
// is released, or when another ServiceCIDR, which may have the same addresses, changes.
//
//upstream:pkg/controller/servicecidrs.NewController
func AddToManager(mgr manager.Manager) error {
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader()}
	return builder.ControllerManagedBy(mgr).
		Named("service-cidr").
		For(&networkingv1.ServiceCIDR{}).
		Watches(&networkingv1.ServiceCIDR{}, handler.EnqueueRequestsFromMapFunc(r.deleted)).
		Watches(&networkingv1.IPAddress{}, handler.EnqueueRequestsFromMapFunc(r.deleted),
			builder.WithPredicates(watches.OnlyDeletes)).
		Complete(r)
}

// reconciler reconciles the finalizer and the condition of a ServiceCIDR.
type reconciler struct {
	client client.Client
	live   client.Reader
}

// deleted returns the ServiceCIDRs that are being deleted.
func (r *reconciler) deleted(ctx context.Context, _ client.Object) []reconcile.Request {
	all := &networkingv1.ServiceCIDRList{}
	if err := r.client.List(ctx, all); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range all.Items {
		if c := &all.Items[i]; c.DeletionTimestamp != nil {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		}
	}
	return requests
}

// Reconcile implements [reconcile.Reconciler].
//
//upstream:pkg/controller/servicecidrs.Controller.sync
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := &networkingv1.ServiceCIDR{}
	if err := r.client.Get(ctx, req.NamespacedName, c); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if c.DeletionTimestamp == nil {
		if controllerutil.AddFinalizer(c, finalizer) {
			if err := r.client.Update(ctx, c); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
		}
		return reconcile.Result{}, r.ready(ctx, c, metav1.Condition{
			Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"})
	}
	if !controllerutil.ContainsFinalizer(c, finalizer) {
		return reconcile.Result{}, nil
	}
	// A live read confirms what the cache says, as it may not have a new address yet.
	for _, reader := range []client.Reader{r.client, r.live} {
		needed, err := needed(ctx, reader, c)
		if err != nil {
			return reconcile.Result{}, err
		}
		if needed {
			return reconcile.Result{}, r.ready(ctx, c, terminating)
		}
	}
	if wait := time.Until(c.DeletionTimestamp.Add(gracePeriod)); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	controllerutil.RemoveFinalizer(c, finalizer)
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Update(ctx, c))
}

// terminating is the condition of a deleted ServiceCIDR with addresses in use.
//
//upstream:pkg/controller/servicecidrs.Controller.sync
var terminating = metav1.Condition{
	Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
	Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
}

// ready sets the condition Ready, unless its status and reason are the same. The message is not compared, since the
// API server sets another one on the default ServiceCIDR.
//
//upstream:pkg/controller/servicecidrs.Controller.updateConditionIfNeeded
func (r *reconciler) ready(ctx context.Context, c *networkingv1.ServiceCIDR, condition metav1.Condition) error {
	is := meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if is != nil && is.Status == condition.Status && is.Reason == condition.Reason {
		return nil
	}
	status := applyv1.ServiceCIDRStatus().WithConditions(applymetav1.Condition().
		WithType(networkingv1.ServiceCIDRConditionReady).WithStatus(condition.Status).WithReason(condition.Reason).
		WithMessage(condition.Message).WithLastTransitionTime(metav1.Now()))
	change := applyv1.ServiceCIDR(c.Name).WithUID(c.UID).WithStatus(status)
	return client.IgnoreNotFound(r.client.Status().Apply(ctx, change, client.FieldOwner(fieldManager), client.ForceOwnership))
}

// needed reports whether services have addresses that are only in this ServiceCIDR.
//
//upstream:pkg/controller/servicecidrs.Controller.canDeleteCIDR
func needed(ctx context.Context, reader client.Reader, c *networkingv1.ServiceCIDR) (bool, error) {
	all, addresses := &networkingv1.ServiceCIDRList{}, &networkingv1.IPAddressList{}
	if err := reader.List(ctx, all); err != nil {
		return false, err
	}
	if err := reader.List(ctx, addresses, client.MatchingLabels{networkingv1.LabelManagedBy: addressManager}); err != nil {
		return false, err
	}
	var others []netip.Prefix
	for i := range all.Items {
		if all.Items[i].Name != c.Name {
			others = append(others, networks(&all.Items[i])...)
		}
	}
	own := networks(c)
	return slices.ContainsFunc(addresses.Items, func(a networkingv1.IPAddress) bool {
		ip, err := netip.ParseAddr(a.Name)
		has := func(n netip.Prefix) bool { return n.Contains(ip) }
		return err == nil && slices.ContainsFunc(own, has) && !slices.ContainsFunc(others, has)
	}), nil
}

// networks returns the networks of a ServiceCIDR.
func networks(c *networkingv1.ServiceCIDR) []netip.Prefix {
	var all []netip.Prefix
	for _, cidr := range c.Spec.CIDRs {
		if network, err := netip.ParsePrefix(cidr); err == nil {
			all = append(all, network)
		}
	}
	return all
}
