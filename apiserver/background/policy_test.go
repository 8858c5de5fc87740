package background

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/storage/memory"
)

// TestPolicyIsReconciled checks that a server adds the missing parts of its policy to an existing storage, and keeps
// additions and objects with autoupdate=false.
func TestPolicyIsReconciled(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	roles := rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	bindings := rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")
	get := func(c *Controllers, gvr schema.GroupVersionResource, name string) runtime.Object {
		t.Helper()
		obj, err := c.objects.registry(gvr).(rest.Getter).Get(context.Background(), name, &metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/mine"}}
	first, stop := start(t, store, Authentication{})
	change := func(gvr schema.GroupVersionResource, name string, f func(runtime.Object)) {
		t.Helper()
		if err := first.objects.replace(gvr, "", name, f); err != nil {
			t.Fatal(err)
		}
	}
	change(roles, "system:discovery", func(obj runtime.Object) {
		obj.(*rbacv1.ClusterRole).Rules = []rbacv1.PolicyRule{extra}
	})
	change(roles, "system:basic-user", func(obj runtime.Object) {
		r := obj.(*rbacv1.ClusterRole)
		r.Rules = nil
		r.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
	})
	change(bindings, "system:discovery", func(obj runtime.Object) { obj.(*rbacv1.ClusterRoleBinding).Subjects = nil })
	untouched := get(first, roles, "cluster-admin").(*rbacv1.ClusterRole).ResourceVersion
	stop()
	second, stop := start(t, store, Authentication{})
	defer stop()
	if got := get(second, roles, "system:discovery").(*rbacv1.ClusterRole).Rules; len(got) < 2 || len(got[0].NonResourceURLs) != 1 {
		t.Errorf("system:discovery has the rules %v", got)
	}
	if got := get(second, roles, "system:basic-user").(*rbacv1.ClusterRole).Rules; len(got) != 0 {
		t.Errorf("system:basic-user has the rules %v", got)
	}
	if got := get(second, bindings, "system:discovery").(*rbacv1.ClusterRoleBinding).Subjects; len(got) != 1 {
		t.Errorf("system:discovery is bound to %v", got)
	}
	if got := get(second, roles, "cluster-admin").(*rbacv1.ClusterRole).ResourceVersion; got != untouched {
		t.Errorf("cluster-admin was written")
	}
}
