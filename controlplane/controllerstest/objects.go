package controllerstest

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/client"
)

// OnlyGC leaves out the controllers that would create objects.
var OnlyGC = controllers.Options{Without: []string{"deployment-controller", "replicaset-controller", "node-lifecycle-controller", "scheduler", "pods", "serviceaccount-controller", "root-ca-certificate-publisher-controller"}}

// ConfigMap returns a ConfigMap with owners.
func ConfigMap(name string, owners ...client.Object) *corev1.ConfigMap {
	return Owned(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, owners...)
}

// Owned sets the owners of o. Each owner has blockOwnerDeletion.
func Owned[T client.Object](o T, owners ...client.Object) T {
	var refs []metav1.OwnerReference
	for _, owner := range owners {
		yes := true
		kind := owner.GetObjectKind().GroupVersionKind()
		if _, ok := owner.(*corev1.ConfigMap); ok {
			kind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
		}
		refs = append(refs, metav1.OwnerReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
			Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: &yes,
		})
	}
	o.SetOwnerReferences(refs)
	return o
}

// Kindless returns an object of a kind that is not served, for references.
func Kindless(kind, version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetName("x")
	u.SetUID("x")
	return u
}

// WidgetDefinition returns the definition of Widgets, of version v1.
func WidgetDefinition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

// Widget returns a Widget with owners.
func Widget(name string, owners ...client.Object) *unstructured.Unstructured {
	u := Kindless("Widget", "example.com/v1")
	u.SetNamespace("default")
	u.SetName(name)
	u.SetUID("")
	return Owned(u, owners...)
}

// Versions returns the versions of a definition: "v1" is served, "-v1" is not. The first one is
// stored.
func Versions(names ...string) []any {
	var list []any
	for i, name := range names {
		served := name[0] != '-'
		if !served {
			name = name[1:]
		}
		list = append(list, map[string]any{
			"name": name, "served": served, "storage": i == 0,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	return list
}

// DefineWidgets creates or updates the definition of Widgets.
func (e Env) DefineWidgets(names ...string) {
	e.Helper()
	crd := WidgetDefinition()
	err := e.Get(e.Context(), client.ObjectKeyFromObject(crd), crd)
	e.Must(client.IgnoreNotFound(err))
	e.Must(unstructured.SetNestedSlice(crd.Object, Versions(names...), "spec", "versions"))
	if apierrors.IsNotFound(err) {
		e.CreateAll(crd)
	} else {
		e.Must(e.Update(e.Context(), crd))
	}
}
