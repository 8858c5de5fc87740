package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

// onlyGC leaves out the controllers that would create objects.
var onlyGC = controllers.Options{Without: []string{"deployment-controller", "replicaset-controller", "node-lifecycle-controller", "scheduler", "pods", "serviceaccount-controller", "root-ca-certificate-publisher-controller"}}

func configMap(name string, owners ...client.Object) *corev1.ConfigMap {
	return owned(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, owners...)
}

// owned sets the owners of o. Each owner has blockOwnerDeletion.
func owned[T client.Object](o T, owners ...client.Object) T {
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

// configMaps returns the names of those in the default namespace.
func (e env) configMaps() []string {
	e.Helper()
	list := &corev1.ConfigMapList{}
	e.must(e.List(e.Context(), list, client.InNamespace("default")))
	names := []string{}
	for _, cm := range list.Items {
		names = append(names, cm.Name)
	}
	return names
}

func (e env) want(names ...string) {
	e.Helper()
	e.waitIdle()
	if got := e.configMaps(); !slices.Equal(got, names) {
		e.Errorf("there is %v, want %v", got, names)
	}
}

func TestPropagation(t *testing.T) {
	for _, tt := range []struct {
		how  metav1.DeletionPropagation
		left []string
	}{
		{background, []string{"other"}}, {foreground, []string{"other"}}, {orphan, []string{"child", "grandchild", "other"}},
	} {
		t.Run(string(tt.how), func(t *testing.T) {
			inVirtualTime(t, onlyGC, func(e env) {
				owner := configMap("a-owner")
				e.create(owner)
				child := configMap("child", owner)
				e.create(child)
				e.create(configMap("grandchild", child), configMap("other"))
				e.waitIdle()
				e.must(e.Delete(e.Context(), owner, client.PropagationPolicy(tt.how)))
				e.want(tt.left...)
			})
		})
	}
}

// TestOrphansThatAreNotObserved deletes owners right after a dependent of another kind was created,
// which the collector may not have observed yet.
func TestOrphansThatAreNotObserved(t *testing.T) {
	inVirtualTime(t, onlyGC, func(e env) {
		const n = 100
		for i := range n {
			owner := configMap(fmt.Sprint("owner", i))
			e.create(owner)
			e.create(owned(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("child", i)}}, owner))
			e.must(e.Delete(e.Context(), owner, client.PropagationPolicy(orphan)))
		}
		e.want()
		list := &corev1.SecretList{}
		e.must(e.List(e.Context(), list, client.InNamespace("default")))
		if len(list.Items) != n {
			t.Errorf("%d of %d are left", len(list.Items), n)
		}
		for _, s := range list.Items {
			if len(s.OwnerReferences) > 0 {
				t.Errorf("%s has owners: %v", s.Name, s.OwnerReferences)
			}
		}
	})
}

func TestForegroundWaits(t *testing.T) {
	inVirtualTime(t, onlyGC, func(e env) {
		owner := configMap("a-owner")
		e.create(owner)
		child := configMap("child", owner)
		child.Finalizers = []string{"example.com/wait"}
		e.create(child)
		e.must(e.Delete(e.Context(), owner, client.PropagationPolicy(foreground)))
		e.want("a-owner", "child")
		e.must(e.Patch(e.Context(), child, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		e.want()
	})
}

func TestDependentsOfAbsentOwners(t *testing.T) {
	inVirtualTime(t, onlyGC, func(e env) {
		owner := configMap("a-owner")
		e.create(owner)
		never := configMap("never")
		never.UID = "never-existed"
		impostor := configMap("a-owner")
		impostor.UID = "of-one-before"
		e.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
		elsewhere := configMap("elsewhere")
		elsewhere.Namespace = "other"
		e.create(elsewhere)
		unserved := owned(configMap("unserved"), kindless("Nothing", "example.com/v1"))

		e.create(configMap("kept", owner), configMap("owner-never-existed", never), configMap("owner-of-that-name", impostor),
			configMap("owner-elsewhere", elsewhere), configMap("one-of-two", owner, never), unserved)
		e.want("a-owner", "kept", "one-of-two", "unserved")

		one := &corev1.ConfigMap{}
		e.must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "one-of-two"}, one))
		if len(one.OwnerReferences) != 1 || one.OwnerReferences[0].UID != owner.UID {
			t.Errorf("the owners are %v", one.OwnerReferences)
		}
	})
}

// TestDependentThatChanges updates an object whenever the collector is about to delete it.
func TestDependentThatChanges(t *testing.T) {
	changes := 0
	withController(t, "garbage-collector-controller", func(e env) interceptor.Funcs {
		return interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				changes++
				label := fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, changes)
				e.must(e.Patch(ctx, configMap(obj.GetName()), client.RawPatch(types.MergePatchType, label)))
				return c.Delete(ctx, obj, opts...)
			},
		}
	}, func(e env) {
		owner := configMap("owner")
		e.create(owner)
		e.create(configMap("child", owner))
		e.waitIdle()
		e.must(e.Delete(e.Context(), owner))
		e.want()
	})
}

// kindless returns an object of a kind that is not served, for references.
func kindless(kind, version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetName("x")
	u.SetUID("x")
	return u
}

func definition() *unstructured.Unstructured {
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

func widget(name string, owners ...client.Object) *unstructured.Unstructured {
	u := kindless("Widget", "example.com/v1")
	u.SetNamespace("default")
	u.SetName(name)
	u.SetUID("")
	return owned(u, owners...)
}

func TestKindsAreAddedAndRemoved(t *testing.T) {
	inVirtualTime(t, onlyGC, func(e env) {
		never := kindless("Widget", "example.com/v1")
		e.create(owned(configMap("early"), never))
		e.want("early") // it is not known whether the widget exists

		crd := definition()
		e.create(crd)
		e.want()

		parent := widget("parent")
		e.create(parent)
		child := widget("child", parent)
		e.create(child, configMap("of-parent", parent))
		e.create(configMap("of-child", child))
		e.want("of-child", "of-parent")
		e.must(e.Delete(e.Context(), parent))
		e.want()

		last := widget("last")
		e.create(last)
		e.create(configMap("of-last", last))
		e.want("of-last")
		e.must(e.Delete(e.Context(), crd))
		e.want()

		again := definition()
		e.create(again)
		e.waitIdle()
		parent = widget("parent")
		e.create(parent)
		e.create(configMap("of-parent", parent))
		e.want("of-parent")
		e.must(e.Delete(e.Context(), parent))
		e.want()
	})
}

// TestRandomOwnersAgainstOracle creates random owner graphs through the API, deletes one object, and compares the
// remaining objects with a simple fixpoint.
func TestRandomOwnersAgainstOracle(t *testing.T) {
	inVirtualTime(t, onlyGC, func(e env) {
		for seed := range uint64(15) {
			r := rand.New(rand.NewPCG(seed, 0))
			var all []*corev1.ConfigMap
			owners := map[string][]string{}
			for i := range 3 + r.IntN(12) {
				name := fmt.Sprintf("o%02d", i)
				owners[name] = nil
				var of []client.Object
				for _, j := range r.Perm(i)[:min(i, r.IntN(3))] {
					of = append(of, all[j])
					owners[name] = append(owners[name], all[j].Name)
				}
				cm := configMap(name, of...)
				e.create(cm)
				all = append(all, cm)
			}
			root := all[r.IntN(len(all))]
			how := []metav1.DeletionPropagation{background, foreground, orphan}[r.IntN(3)]
			e.must(e.Delete(e.Context(), root, client.PropagationPolicy(how)))
			e.waitIdle()
			if got, want := strings.Join(e.configMaps(), " "), survivors(owners, root.Name, how); got != want {
				t.Fatalf("seed %d: after %s deletion of %s there is\n%s\nwant\n%s", seed, how, root.Name, got, want)
			}
			e.must(e.DeleteAllOf(e.Context(), &corev1.ConfigMap{}, client.InNamespace("default")))
			e.want()
		}
	})
}

// survivors is the oracle: it returns the objects that must remain after the deletion of root.
func survivors(owners map[string][]string, root string, how metav1.DeletionPropagation) string {
	delete(owners, root)
	if how == orphan {
		for name := range owners {
			owners[name] = slices.DeleteFunc(owners[name], func(o string) bool { return o == root })
		}
	}
	for again := true; again; {
		again = false
		for name, list := range owners {
			absent := func(o string) bool { _, ok := owners[o]; return !ok }
			if len(list) > 0 && !slices.ContainsFunc(list, func(o string) bool { return !absent(o) }) {
				delete(owners, name)
				again = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(owners)), " ")
}
