package loadbalancer

import (
	"context"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// IngressController is the name of the controller in IngressClasses for the Ingresses that get an address, besides Ingresses
// without a class.
const IngressController = "flyball.dev/ingress"

// ingressAddress is the address of the one load balancer of all Ingresses.
var ingressAddress = netip.MustParseAddr("10.64.255.254")

// legacyClass is the annotation for the class of an Ingress.
//
//upstream:pkg/registry/networking/ingress.annotationIngressClass
const legacyClass = "kubernetes.io/ingress.class"

// AddIngressesToManager adds the controller of Ingresses. Kubernetes has none.
func AddIngressesToManager(mgr manager.Manager) error {
	r := &ingressReconciler{client: mgr.GetClient()}
	return builder.ControllerManagedBy(mgr).
		Named("ingress").
		For(&networkingv1.Ingress{}).
		Watches(&networkingv1.IngressClass{}, handler.EnqueueRequestsFromMapFunc(r.ofClass)).
		Complete(r)
}

// ingressReconciler reconciles Ingresses.
type ingressReconciler struct{ client client.Client }

// ofClass maps an IngressClass to its Ingresses.
func (r *ingressReconciler) ofClass(ctx context.Context, class client.Object) (requests []reconcile.Request) {
	all := &networkingv1.IngressList{}
	if err := r.client.List(ctx, all); err != nil {
		return nil // the cache has stopped
	}
	for i := range all.Items {
		if classOf(&all.Items[i]) == class.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
}

// classOf returns the class of an Ingress, or "".
func classOf(in *networkingv1.Ingress) string {
	if in.Spec.IngressClassName != nil {
		return *in.Spec.IngressClassName
	}
	return in.Annotations[legacyClass]
}

// Reconcile gives an Ingress the address of the load balancer. An Ingress of another class keeps its addresses.
func (r *ingressReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	in := &networkingv1.Ingress{}
	if err := r.client.Get(ctx, req.NamespacedName, in); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ours, err := r.isOurs(ctx, in); err != nil || !ours || in.DeletionTimestamp != nil {
		return reconcile.Result{}, err
	}
	want := networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{{IP: ingressAddress.String()}}}
	if equality.Semantic.DeepEqual(in.Status.LoadBalancer, want) {
		return reconcile.Result{}, nil
	}
	in.Status.LoadBalancer = want
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Status().Update(ctx, in))
}

// isOurs reports whether an Ingress has no class, or a class of [IngressController].
func (r *ingressReconciler) isOurs(ctx context.Context, in *networkingv1.Ingress) (bool, error) {
	name := classOf(in)
	if name == "" {
		return true, nil
	}
	class := &networkingv1.IngressClass{}
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, class)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return class.Spec.Controller == IngressController, err
}
