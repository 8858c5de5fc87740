package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Guard returns an error if the user of a request may not write an object because of its content. On create, old is nil
// or an empty object.
type Guard = func(ctx context.Context, obj, old runtime.Object) error

// Guards returns the guards of roles and bindings by resource. Users may grant only permissions that they have. Members
// of system:masters are exempt, and so are users whom a allows the verbs "escalate" and "bind".
func (e *Evaluator) Guards(a authorizer.UnconditionalAuthorizer) map[schema.GroupResource]Guard {
	g := guards{e, a}
	return map[schema.GroupResource]Guard{
		rbacv1.Resource("roles"):               g.role,
		rbacv1.Resource("clusterroles"):        g.clusterRole,
		rbacv1.Resource("rolebindings"):        g.roleBinding,
		rbacv1.Resource("clusterrolebindings"): g.clusterRoleBinding,
	}
}

// guards compares the permissions that a role or binding grants with the permissions of its writer.
type guards struct {
	evaluator  *Evaluator
	authorizer authorizer.UnconditionalAuthorizer
}

// everything lists the permissions of cluster-admin.
//
//upstream:pkg/registry/rbac/clusterrole/policybased.fullAuthority
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

//upstream:pkg/registry/rbac/role/policybased.Storage
func (g guards) role(ctx context.Context, obj, old runtime.Object) error {
	if g.escalationAuthorized(ctx) || onlyForGC(obj, old) {
		return nil
	}
	role := obj.(*rbacv1.Role)
	return forbid("roles", role.Name, g.confirmNoEscalation(ctx, "roles", role.Rules))
}

//upstream:pkg/registry/rbac/clusterrole/policybased.Storage
func (g guards) clusterRole(ctx context.Context, obj, old runtime.Object) error {
	if g.escalationAuthorized(ctx) || onlyForGC(obj, old) {
		return nil
	}
	role := obj.(*rbacv1.ClusterRole)
	if err := g.confirmNoEscalation(ctx, "clusterroles", role.Rules); err != nil {
		return forbid("clusterroles", role.Name, err)
	}
	// A role with an aggregationRule may get any rule later.
	before, _ := old.(*rbacv1.ClusterRole)
	if (aggregates(role) || aggregates(before)) && g.confirmNoEscalation(ctx, "clusterroles", everything) != nil {
		return forbid("clusterroles", role.Name,
			errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

func aggregates(r *rbacv1.ClusterRole) bool {
	return r != nil && r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

//upstream:pkg/registry/rbac/rolebinding/policybased.Storage
func (g guards) roleBinding(ctx context.Context, obj, old runtime.Object) error {
	binding := obj.(*rbacv1.RoleBinding)
	namespace, ok := request.NamespaceFrom(ctx)
	if !ok {
		return apierrors.NewBadRequest("namespace is required")
	}
	return g.binding(ctx, "rolebindings", binding.Name, binding.RoleRef, namespace, obj, old)
}

//upstream:pkg/registry/rbac/clusterrolebinding/policybased.Storage
func (g guards) clusterRoleBinding(ctx context.Context, obj, old runtime.Object) error {
	binding := obj.(*rbacv1.ClusterRoleBinding)
	return g.binding(ctx, "clusterrolebindings", binding.Name, binding.RoleRef, metav1.NamespaceNone, obj, old)
}

// binding checks a write of a binding to a role.
func (g guards) binding(ctx context.Context, resource, name string, role rbacv1.RoleRef, namespace string,
	obj, old runtime.Object) error {
	if privileged(ctx) || onlyForGC(obj, old) || g.bindAuthorized(ctx, role, namespace) {
		return nil
	}
	rules, err := g.evaluator.roleRules(role, namespace, resource)
	if err != nil {
		return err
	}
	return forbid(resource, name, g.confirmNoEscalation(ctx, resource, rules))
}

// forbid returns a Forbidden error that wraps err, or nil if err is nil.
func forbid(resource, name string, err error) error {
	if err == nil {
		return nil
	}
	return apierrors.NewForbidden(rbacv1.Resource(resource), name, err)
}

// privileged reports whether the user of a request is a member of system:masters.
func privileged(ctx context.Context) bool {
	u, ok := request.UserFrom(ctx)
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

// escalationAuthorized reports whether the user may add any permission to the role of the request.
//
//upstream:pkg/registry/rbac.EscalationAllowed
//upstream:pkg/registry/rbac.RoleEscalationAuthorized
func (g guards) escalationAuthorized(ctx context.Context) bool {
	if privileged(ctx) {
		return true
	}
	u, ok := request.UserFrom(ctx)
	info, isResource := request.RequestInfoFrom(ctx)
	if !ok || !isResource || !info.IsResourceRequest || info.APIGroup != rbacv1.GroupName ||
		info.Resource != "roles" && info.Resource != "clusterroles" {
		return false
	}
	return g.allowed(ctx, authorizer.AttributesRecord{User: u, Verb: "escalate", APIGroup: info.APIGroup,
		APIVersion: "*", Resource: info.Resource, Name: info.Name, Namespace: info.Namespace, ResourceRequest: true})
}

// bindAuthorized reports whether the user may bind any subject to a role.
//
//upstream:pkg/registry/rbac.BindingAuthorized
func (g guards) bindAuthorized(ctx context.Context, role rbacv1.RoleRef, namespace string) bool {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return false
	}
	a := authorizer.AttributesRecord{User: u, Verb: "bind", Namespace: namespace, APIGroup: role.APIGroup,
		APIVersion: "*", Name: role.Name, ResourceRequest: true}
	switch role.Kind {
	case "ClusterRole":
		a.Resource = "clusterroles"
	case "Role":
		a.Resource = "roles"
	default:
		return false
	}
	return g.allowed(ctx, a)
}

func (g guards) allowed(ctx context.Context, a authorizer.Attributes) bool {
	decision, _, err := g.authorizer.Authorize(ctx, a)
	return err == nil && decision == authorizer.DecisionAllow
}

// confirmNoEscalation returns an error if the user of a request lacks any permission of the rules. resource is the
// resource of the request.
//
//upstream:pkg/registry/rbac/validation.ConfirmNoEscalation
func (g guards) confirmNoEscalation(ctx context.Context, resource string, rules []rbacv1.PolicyRule) error {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return errors.New("no user on context")
	}
	namespace, _ := request.NamespaceFrom(ctx)
	if n := permissions(rules); n > maxPermissions {
		return fmt.Errorf("the rules have %.0f permissions; at most %d can be compared with the permissions currently held", n, maxPermissions)
	}
	held, err := g.evaluator.rulesFor(u, namespace, resource)
	lacking := missing(held, rules)
	if len(lacking) == 0 {
		return nil
	}
	var lines []string
	for _, r := range compact(lacking) {
		lines = append(lines, describe(r))
	}
	slices.Sort(lines)
	msg := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.GetName(), u.GetGroups(), strings.Join(slices.Compact(lines), "\n"))
	if err != nil {
		msg += fmt.Sprintf("; resolution errors: %v", []error{err})
	}
	return errors.New(msg)
}

// describe returns the description of a rule in error messages.
func describe(r rbacv1.PolicyRule) string {
	var parts []string
	for _, field := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(field.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", field.name, field.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// onlyForGC reports whether an update changes only the fields that the garbage collector changes: owner references,
// finalizers, and managed fields.
//
//upstream:pkg/registry/rbac.IsOnlyMutatingGCFields
func onlyForGC(obj, old runtime.Object) bool {
	if old == nil {
		return false
	}
	same, ok := obj.DeepCopyObject().(metav1.Object)
	before, isObject := old.(metav1.Object)
	if !ok || !isObject {
		return false
	}
	same.SetOwnerReferences(before.GetOwnerReferences())
	same.SetFinalizers(before.GetFinalizers())
	same.SetManagedFields(before.GetManagedFields())
	return equality.Semantic.DeepEqual(same, old)
}
