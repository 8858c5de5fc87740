package clusterroleaggregation_test

import (
	"slices"
	"testing"
	"testing/synctest"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func TestClusterRoleAggregation(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		widgets := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}}
		has := func(name, resource string) bool {
			e.Helper()
			synctest.Wait()
			role := &rbacv1.ClusterRole{}
			if err := e.Get(e.Context(), client.ObjectKey{Name: name}, role); err != nil {
				e.Fatal(err)
			}
			return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) })
		}
		if !has("view", "pods/log") || !has("edit", "pods/log") || !has("admin", "rolebindings") || has("view", "secrets") {
			e.Error("the roles for users were not aggregated")
		}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "widgets-view",
			Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}}, Rules: []rbacv1.PolicyRule{widgets}}
		if err := e.Create(e.Context(), role); err != nil {
			e.Fatal(err)
		}
		if !has("view", "widgets") || !has("edit", "widgets") || !has("admin", "widgets") {
			e.Error("a new role was not aggregated")
		}
		if err := e.Delete(e.Context(), role); err != nil {
			e.Fatal(err)
		}
		if has("view", "widgets") || has("admin", "widgets") {
			e.Error("a deleted role is still aggregated")
		}
	})
}
