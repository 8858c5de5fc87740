// Package clusterroleaggregation gives ClusterRoles with an aggregation rule the rules of the roles
// that it selects.
package clusterroleaggregation

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	applyv1 "k8s.io/client-go/applyconfigurations/rbac/v1"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// fieldManager is the manager of the rules that are aggregated.
const fieldManager = "clusterrole-aggregation-controller"

// AddToManager adds the controller.
//
//upstream:pkg/controller/clusterroleaggregation.NewClusterRoleAggregation
func AddToManager(mgr manager.Manager) error {
	r := &reconciler{mgr.GetClient()}
	return builder.ControllerManagedBy(mgr).
		Named("clusterrole-aggregation").
		For(&rbacv1.ClusterRole{}).
		Watches(&rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(r.aggregating)).
		Complete(r)
}

// reconciler reconciles the rules of a role with the rules of the roles that it aggregates.
type reconciler struct{ client client.Client }

// aggregating returns requests for all roles that aggregate, since any may select, or have
// selected, the role that has changed.
//
//upstream:pkg/controller/clusterroleaggregation.ClusterRoleAggregationController.enqueue
func (r *reconciler) aggregating(ctx context.Context, changed client.Object) []reconcile.Request {
	list := &rbacv1.ClusterRoleList{}
	if r.client.List(ctx, list) != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if role := &list.Items[i]; role.AggregationRule != nil && role.Name != changed.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(role)})
		}
	}
	return requests
}

// Reconcile applies the rules of one role.
//
//upstream:pkg/controller/clusterroleaggregation.ClusterRoleAggregationController.syncClusterRole
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	role := &rbacv1.ClusterRole{}
	if err := r.client.Get(ctx, req.NamespacedName, role); err != nil || role.AggregationRule == nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	list := &rbacv1.ClusterRoleList{}
	if err := r.client.List(ctx, list); err != nil {
		return reconcile.Result{}, err
	}
	rules, err := aggregated(role, list.Items)
	if err != nil || equality.Semantic.DeepEqual(rules, role.Rules) {
		return reconcile.Result{}, err
	}
	// With the UID, a role that was deleted meanwhile is not created again.
	change := applyv1.ClusterRole(role.Name).WithUID(role.UID)
	for i := range rules {
		change.WithRules(applyRule(&rules[i]))
	}
	return reconcile.Result{}, r.client.Apply(ctx, change, client.FieldOwner(fieldManager), client.ForceOwnership)
}

// applyRule returns a rule to be applied.
//
//upstream:pkg/controller/clusterroleaggregation.toApplyPolicyRule
func applyRule(r *rbacv1.PolicyRule) *applyv1.PolicyRuleApplyConfiguration {
	return &applyv1.PolicyRuleApplyConfiguration{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources,
		ResourceNames: r.ResourceNames, NonResourceURLs: r.NonResourceURLs}
}

// aggregated returns the distinct rules of the roles that a role selects, in the order of the
// selectors and then of the names.
//
//upstream:pkg/controller/clusterroleaggregation.ClusterRoleAggregationController.syncClusterRole
func aggregated(role *rbacv1.ClusterRole, all []rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	var sorted []*rbacv1.ClusterRole
	for i := range all {
		if all[i].Name != role.Name {
			sorted = append(sorted, &all[i])
		}
	}
	slices.SortFunc(sorted, func(a, b *rbacv1.ClusterRole) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	var rules []rbacv1.PolicyRule
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, reconcile.TerminalError(err)
		}
		for _, other := range sorted {
			if !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, rule) }) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}
