// Package validatingadmissionpolicystatus checks the types of the expressions of
// ValidatingAdmissionPolicies, and writes the warnings to their status.
package validatingadmissionpolicystatus

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	applyv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/discovery"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// name is the name of the controller and of its field manager.
//
//upstream:pkg/controller/validatingadmissionpolicystatus.ControllerName
const name = "validatingadmissionpolicy-status"

// AddToManager adds the controller.
//
//upstream:pkg/controller/validatingadmissionpolicystatus.NewController
func AddToManager(mgr manager.Manager) error {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	r := &reconciler{mgr.GetClient(), validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: d}, RestMapper: mgr.GetRESTMapper()}}
	return builder.ControllerManagedBy(mgr).Named(name).For(&admissionv1.ValidatingAdmissionPolicy{}).Complete(r)
}

// reconciler reconciles the status of a policy with its spec.
type reconciler struct {
	client  client.Client
	checker validating.TypeChecker
}

// Reconcile checks one policy if its spec has changed. A change of the kinds that the policy refers to does not cause
// another check.
//
//upstream:pkg/controller/validatingadmissionpolicystatus.Controller.reconcile
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	err := r.client.Get(ctx, req.NamespacedName, policy)
	if err != nil || policy.Generation <= policy.Status.ObservedGeneration || policy.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	checked := applyv1.TypeChecking()
	for _, w := range r.checker.Check(policy) {
		checked.WithExpressionWarnings(applyv1.ExpressionWarning().WithFieldRef(w.FieldRef).WithWarning(w.Warning))
	}
	status := applyv1.ValidatingAdmissionPolicyStatus().WithObservedGeneration(policy.Generation).WithTypeChecking(checked)
	// With the UID, a policy that was deleted meanwhile is not created again.
	change := applyv1.ValidatingAdmissionPolicy(policy.Name).WithUID(policy.UID).WithStatus(status)
	err = r.client.Status().Apply(ctx, change, client.FieldOwner(name), client.ForceOwnership)
	return reconcile.Result{}, client.IgnoreNotFound(err)
}
