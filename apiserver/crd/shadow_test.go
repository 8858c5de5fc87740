package crd_test

import (
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"flyball.dev/controlplane"
)

// TestCustomKindOfBuiltInName: a definition with the group and the plural of a built-in kind is not
// served, in whichever version, and its deletion leaves the built-in objects alone. Otherwise its
// objects, which nothing guards, would be roles.
func TestCustomKindOfBuiltInName(t *testing.T) {
	for _, version := range []string{"v2", "v1beta1", "v1"} {
		t.Run(version, func(t *testing.T) {
			plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
			admin, ann, ctx := controlplanetest.ClientFor(t, plane.Config()), controlplanetest.As(t, plane, "ann"), t.Context()
			controlplanetest.GrantCluster(t, admin, "reader", "ann", controlplanetest.PolicyRule("list", "", "configmaps"))
			all, err := dynamic.NewForConfig(plane.Config())
			if err != nil {
				t.Fatal(err)
			}
			crds := all.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
			w, err := crds.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			crd := controlplanetest.Must[*unstructured.Unstructured](t)(crds.Create(ctx, controlplanetest.Decode(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterroles.rbac.authorization.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/kubernetes/pull/1"}
spec:
  group: rbac.authorization.k8s.io
  scope: Cluster
  names: {plural: clusterroles, singular: clusterrole, kind: ClusterRole, listKind: ClusterRoleList}
  versions:
  - {name: `+version+`, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`), metav1.CreateOptions{}))
			for e := range w.ResultChan() {
				if conditions, _, _ := unstructured.NestedSlice(e.Object.(*unstructured.Unstructured).Object, "status", "conditions"); len(conditions) > 0 {
					break
				}
			}
			// Who may create custom objects, but neither escalate nor grant anything, creates a role.
			controlplanetest.GrantCluster(t, admin, "writer", "ann", controlplanetest.PolicyRule("create", rbacv1.GroupName, "clusterroles"))
			annConfig := plane.Config()
			annConfig.Impersonate.UserName = "ann"
			custom, err := dynamic.NewForConfig(annConfig)
			if err != nil {
				t.Fatal(err)
			}
			_, err = custom.Resource(schema.GroupVersionResource{Group: rbacv1.GroupName, Version: version, Resource: "clusterroles"}).
				Create(ctx, &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "rbac.authorization.k8s.io/" + version, "kind": "ClusterRole", "metadata": map[string]any{"name": "shadow"},
					"rules": []any{map[string]any{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}}}}}, metav1.CreateOptions{})
			if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
				t.Errorf("the custom object: %v", err)
			}
			if err := crds.Delete(ctx, crd.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			for e := range w.ResultChan() {
				if e.Type == watch.Deleted {
					break
				}
			}
			controlplanetest.Must[*rbacv1.ClusterRole](t)(admin.RbacV1().ClusterRoles().Get(ctx, "cluster-admin", metav1.GetOptions{}))
			controlplanetest.Must[*corev1.ConfigMapList](t)(ann.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}))
		})
	}
}
