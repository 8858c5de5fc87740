// Package rbac authorizes requests by the stored roles and bindings, and guards writes of roles and bindings against
// privilege escalation.
//
// Stale objects never lead to a decision: the evaluator reads roles and bindings from the store, and caches them until
// the next write of an object of the same kind.
//
// The index of the permissions by subject is valid until the next write of these kinds. policy.txt has the bootstrap
// policy; a server adds the missing parts at its start.
package rbac

import (
	"cmp"
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Evaluator authorizes requests by RBAC. It is safe for concurrent use.
//
//upstream:plugin/pkg/auth/authorizer/rbac.RBACAuthorizer
//upstream:pkg/registry/rbac/validation.DefaultRuleResolver
type Evaluator struct {
	roles, clusterRoles               *index[map[types.NamespacedName][]rbacv1.PolicyRule]
	roleBindings, clusterRoleBindings *index[map[string]subjects]
}

var (
	_ authorizer.UnconditionalAuthorizer = (*Evaluator)(nil)
	_ authorizer.RuleResolver            = (*Evaluator)(nil)
)

// New returns an evaluator of the stored roles and bindings.
func New(o Objects) *Evaluator {
	return &Evaluator{
		roles:               newIndex(o, "roles", indexRules),
		clusterRoles:        newIndex(o, "clusterroles", indexRules),
		roleBindings:        newIndex(o, "rolebindings", indexBindings),
		clusterRoleBindings: newIndex(o, "clusterrolebindings", indexBindings),
	}
}

// Fork returns an evaluator of the roles and bindings of a store that was forked from the store of e at a revision, and has not
// been written since. The two share what e has read, if it is valid for both.
func (e *Evaluator) Fork(o Objects, revision uint64) *Evaluator {
	f := New(o)
	f.roles.inherit(e.roles, revision)
	f.clusterRoles.inherit(e.clusterRoles, revision)
	f.roleBindings.inherit(e.roleBindings, revision)
	f.clusterRoleBindings.inherit(e.clusterRoleBindings, revision)
	return f
}

// Authorize allows a request if a role bound to the user has a matching rule. Otherwise it has no opinion, and the
// reason names the user's bindings to missing roles.
func (e *Evaluator) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	var allowed *grant
	var errs []error
	e.visit(a.GetUser(), a.GetNamespace(), "", func(g *grant, rules []rbacv1.PolicyRule, err error) bool {
		if err != nil {
			errs = append(errs, err)
		}
		for i := range rules {
			if allows(&rules[i], a) {
				allowed = g
				return false
			}
		}
		return true
	})
	switch {
	case allowed != nil:
		return authorizer.DecisionAllow, allowed.reason, nil
	case len(errs) > 0:
		return authorizer.DecisionNoOpinion, fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(errs)), nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// RulesFor implements [authorizer.RuleResolver].
func (e *Evaluator) RulesFor(_ context.Context, u user.Info, namespace string) (
	resources []authorizer.ResourceRuleInfo, paths []authorizer.NonResourceRuleInfo, incomplete bool, err error) {
	rules, err := e.rulesFor(u, namespace, "")
	for _, r := range rules {
		if len(r.NonResourceURLs) > 0 {
			paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		}
		if len(r.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{Verbs: r.Verbs, APIGroups: r.APIGroups,
				Resources: r.Resources, ResourceNames: r.ResourceNames})
		}
	}
	return resources, paths, false, err
}

// rulesFor returns all rules that apply to a user in a namespace. If it returns an error, the rules are the ones that
// it could find. For resource, see roleRules.
func (e *Evaluator) rulesFor(u user.Info, namespace, resource string) ([]rbacv1.PolicyRule, error) {
	var all []rbacv1.PolicyRule
	var errs []error
	seen := map[bindingKey]bool{}
	e.visit(u, namespace, resource, func(g *grant, rules []rbacv1.PolicyRule, err error) bool {
		if g == nil || !seen[g.bindingKey] {
			if err != nil {
				errs = append(errs, err)
			}
			all = append(all, rules...)
		}
		if g != nil {
			seen[g.bindingKey] = true
		}
		return true
	})
	return all, utilerrors.NewAggregate(errs)
}

// visit calls yield with each grant to the user, first in the cluster and then in the namespace, and the rules of its
// role, until yield returns false. If the role of a grant is missing, visit passes an error instead. If the bindings
// cannot be read, the grant is nil. For resource, see roleRules.
//
//upstream:pkg/registry/rbac/validation.DefaultRuleResolver.VisitRulesFor
func (e *Evaluator) visit(u user.Info, namespace, resource string, yield func(*grant, []rbacv1.PolicyRule, error) bool) {
	visit := func(bindings *index[map[string]subjects], namespace string) bool {
		byNamespace, err := bindings.get()
		if err != nil {
			return yield(nil, nil, err)
		}
		granted := byNamespace[namespace]
		if len(granted) == 0 {
			return true
		}
		for i := -1; i < len(u.GetGroups()); i++ {
			who := subject{kind: rbacv1.UserKind, name: u.GetName()}
			if i >= 0 {
				who = subject{kind: rbacv1.GroupKind, name: u.GetGroups()[i]}
			}
			for _, g := range granted[who] {
				rules, err := e.roleRules(g.role, namespace, resource)
				if !yield(g, rules, err) {
					return false
				}
			}
		}
		return true
	}
	if visit(e.clusterRoleBindings, "") && namespace != "" {
		visit(e.roleBindings, namespace)
	}
}

// roleRules returns the rules of the role that a binding in a namespace refers to. The error for a missing role names
// resource, as in kube-apiserver, which names the resource of the request. An empty resource stands for the resource of
// the role.
//
//upstream:pkg/registry/rbac/validation.DefaultRuleResolver.GetRoleReferenceRules
func (e *Evaluator) roleRules(r rbacv1.RoleRef, namespace, resource string) ([]rbacv1.PolicyRule, error) {
	from, key, singular := e.clusterRoles, types.NamespacedName{Name: r.Name}, "clusterrole"
	switch r.Kind {
	case "ClusterRole":
	case "Role":
		from, key.Namespace, singular = e.roles, namespace, "role"
	default:
		return nil, fmt.Errorf("unsupported role reference kind: %q", r.Kind)
	}
	all, err := from.get()
	if err != nil {
		return nil, err
	}
	rules, ok := all[key]
	if !ok {
		return nil, errors.NewNotFound(rbacv1.Resource(cmp.Or(resource, singular)), r.Name)
	}
	return rules, nil
}
