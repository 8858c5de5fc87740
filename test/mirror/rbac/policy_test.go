package rbac

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"flyball.dev/apiserver/authz/rbac"
)

// TestPolicy holds the roles and bindings that every cluster has against Kubernetes's.
func TestPolicy(t *testing.T) {
	theirs := upstreamPolicy()
	for _, obj := range rbac.Policy() {
		name := nameOf(obj)
		other, ok := theirs[name]
		if !ok {
			t.Errorf("Kubernetes has no %s", name)
			continue
		}
		delete(theirs, name)
		comparePolicy(t, name, obj, other)
	}
	for name := range theirs {
		t.Errorf("there is no %s", name)
	}
}

// upstreamPolicy returns Kubernetes's objects by name.
func upstreamPolicy() map[string]rbac.Object {
	all := map[string]rbac.Object{}
	add := func(o rbac.Object) { all[nameOf(o)] = o }
	for _, r := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()) {
		add(&r)
	}
	for _, b := range slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()) {
		add(&b)
	}
	for namespace, roles := range bootstrappolicy.NamespaceRoles() {
		for _, r := range roles {
			r.Namespace = namespace
			add(&r)
		}
	}
	for namespace, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			b.Namespace = namespace
			add(&b)
		}
	}
	return all
}

// comparePolicy compares two objects of a name; the order of their rules is without effect.
func comparePolicy(t *testing.T, name string, ours, theirs rbac.Object) {
	t.Helper()
	for _, part := range []func(rbac.Object) any{
		func(o rbac.Object) any { return o.GetLabels() },
		func(o rbac.Object) any { return o.GetAnnotations() },
		aggregation, roleRef, subjects,
	} {
		if a, b := part(ours), part(theirs); !equality.Semantic.DeepEqual(a, b) {
			t.Errorf("%s: ours %v, theirs %v", name, a, b)
		}
	}
	if ok, lacks := validation.Covers(rules(ours), rules(theirs)); !ok {
		t.Errorf("%s lacks %v", name, lacks)
	}
	if ok, has := validation.Covers(rules(theirs), rules(ours)); !ok {
		t.Errorf("%s has besides %v", name, has)
	}
}

func nameOf(o rbac.Object) string {
	switch o.(type) {
	case *rbacv1.Role:
		return "Role " + o.GetNamespace() + "/" + o.GetName()
	case *rbacv1.ClusterRole:
		return "ClusterRole " + o.GetName()
	case *rbacv1.RoleBinding:
		return "RoleBinding " + o.GetNamespace() + "/" + o.GetName()
	}
	return "ClusterRoleBinding " + o.GetName()
}

func rules(o runtime.Object) []rbacv1.PolicyRule {
	switch o := o.(type) {
	case *rbacv1.Role:
		return o.Rules
	case *rbacv1.ClusterRole:
		return o.Rules
	}
	return nil
}

func aggregation(o rbac.Object) any {
	if r, ok := o.(*rbacv1.ClusterRole); ok {
		return r.AggregationRule
	}
	return nil
}

func roleRef(o rbac.Object) any {
	switch o := o.(type) {
	case *rbacv1.RoleBinding:
		return o.RoleRef
	case *rbacv1.ClusterRoleBinding:
		return o.RoleRef
	}
	return nil
}

func subjects(o rbac.Object) any {
	switch o := o.(type) {
	case *rbacv1.RoleBinding:
		return o.Subjects
	case *rbacv1.ClusterRoleBinding:
		return o.Subjects
	}
	return nil
}
