package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers"
	"flyball.dev/controllers/gc"
	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
	"flyball.dev/ctrl/manager"
)

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

// onlyGC leaves out the controllers that would create objects.
var onlyGC = controllers.Options{Without: []string{"deployment", "replicaset", "node-lifecycle", "scheduler", "pods", "serviceaccount", "root-ca"}}

func configMap(name string, owners ...client.Object) *corev1.ConfigMap {
	return owned(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, owners...)
}

// owned makes the owners of o, each of which blocks its deletion.
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

func (w world) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		w.must(w.Create(w.Context(), o))
	}
}

// configMaps returns the names of those in the default namespace.
func (w world) configMaps() []string {
	w.Helper()
	list := &corev1.ConfigMapList{}
	w.must(w.List(w.Context(), list, client.InNamespace("default")))
	names := []string{}
	for _, cm := range list.Items {
		names = append(names, cm.Name)
	}
	return names
}

func (w world) want(names ...string) {
	w.Helper()
	w.waitIdle()
	if got := w.configMaps(); !slices.Equal(got, names) {
		w.Errorf("there is %v, want %v", got, names)
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
			inVirtualTime(t, onlyGC, func(w world) {
				owner := configMap("a-owner")
				w.create(owner)
				child := configMap("child", owner)
				w.create(child)
				w.create(configMap("grandchild", child), configMap("other"))
				w.waitIdle()
				w.must(w.Delete(w.Context(), owner, client.PropagationPolicy(tt.how)))
				w.want(tt.left...)
			})
		})
	}
}

// TestOrphansThatAreNotObserved deletes owners right after a dependent of another kind was created,
// which the collector may not have observed yet.
func TestOrphansThatAreNotObserved(t *testing.T) {
	inVirtualTime(t, onlyGC, func(w world) {
		const n = 100
		for i := range n {
			owner := configMap(fmt.Sprint("owner", i))
			w.create(owner)
			w.create(owned(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("child", i)}}, owner))
			w.must(w.Delete(w.Context(), owner, client.PropagationPolicy(orphan)))
		}
		w.want()
		list := &corev1.SecretList{}
		w.must(w.List(w.Context(), list, client.InNamespace("default")))
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
	inVirtualTime(t, onlyGC, func(w world) {
		owner := configMap("a-owner")
		w.create(owner)
		child := configMap("child", owner)
		child.Finalizers = []string{"example.com/wait"}
		w.create(child)
		w.must(w.Delete(w.Context(), owner, client.PropagationPolicy(foreground)))
		w.want("a-owner", "child")
		w.must(w.Patch(w.Context(), child, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		w.want()
	})
}

func TestDependentsOfAbsentOwners(t *testing.T) {
	inVirtualTime(t, onlyGC, func(w world) {
		owner := configMap("a-owner")
		w.create(owner)
		never := configMap("never")
		never.UID = "never-existed"
		impostor := configMap("a-owner")
		impostor.UID = "of-one-before"
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
		elsewhere := configMap("elsewhere")
		elsewhere.Namespace = "other"
		w.create(elsewhere)
		unserved := owned(configMap("unserved"), kindless("Nothing", "example.com/v1"))

		w.create(configMap("kept", owner), configMap("owner-never-existed", never), configMap("owner-of-that-name", impostor),
			configMap("owner-elsewhere", elsewhere), configMap("one-of-two", owner, never), unserved)
		w.want("a-owner", "kept", "one-of-two", "unserved")

		one := &corev1.ConfigMap{}
		w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: "one-of-two"}, one))
		if len(one.OwnerReferences) != 1 || one.OwnerReferences[0].UID != owner.UID {
			t.Errorf("the owners are %v", one.OwnerReferences)
		}
	})
}

// TestDependentThatChanges updates an object whenever the collector is about to delete it.
func TestDependentThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		c, err := client.NewWithWatch(plane.Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := world{t, c}
		changes := 0
		stop := runController(w, plane.Config(), func(mgr manager.Manager) error {
			objects, err := inventory.New(mgr)
			w.must(err)
			return gc.AddToManager(mgr, objects)
		}, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				changes++
				label := fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, changes)
				w.must(w.Patch(ctx, configMap(obj.GetName()), client.RawPatch(types.MergePatchType, label)))
				return c.Delete(ctx, obj, opts...)
			},
		})
		defer stop()
		owner := configMap("owner")
		w.create(owner)
		w.create(configMap("child", owner))
		w.waitIdle()
		w.must(w.Delete(w.Context(), owner))
		w.want()
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
	inVirtualTime(t, onlyGC, func(w world) {
		never := kindless("Widget", "example.com/v1")
		w.create(owned(configMap("early"), never))
		w.want("early") // it is not known whether the widget exists

		crd := definition()
		w.create(crd)
		w.want()

		parent := widget("parent")
		w.create(parent)
		child := widget("child", parent)
		w.create(child, configMap("of-parent", parent))
		w.create(configMap("of-child", child))
		w.want("of-child", "of-parent")
		w.must(w.Delete(w.Context(), parent))
		w.want()

		last := widget("last")
		w.create(last)
		w.create(configMap("of-last", last))
		w.want("of-last")
		w.must(w.Delete(w.Context(), crd))
		w.want()

		again := definition()
		w.create(again)
		w.waitIdle()
		parent = widget("parent")
		w.create(parent)
		w.create(configMap("of-parent", parent))
		w.want("of-parent")
		w.must(w.Delete(w.Context(), parent))
		w.want()
	})
}

// TestRandomOwnersAgainstOracle creates random owner graphs through the API, deletes one object,
// and compares what is left with a simple fixpoint.
func TestRandomOwnersAgainstOracle(t *testing.T) {
	inVirtualTime(t, onlyGC, func(w world) {
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
				w.create(cm)
				all = append(all, cm)
			}
			root := all[r.IntN(len(all))]
			how := []metav1.DeletionPropagation{background, foreground, orphan}[r.IntN(3)]
			w.must(w.Delete(w.Context(), root, client.PropagationPolicy(how)))
			w.waitIdle()
			if got, want := strings.Join(w.configMaps(), " "), survivors(owners, root.Name, how); got != want {
				t.Fatalf("seed %d: after %s deletion of %s there is\n%s\nwant\n%s", seed, how, root.Name, got, want)
			}
			w.must(w.DeleteAllOf(w.Context(), &corev1.ConfigMap{}, client.InNamespace("default")))
			w.want()
		}
	})
}

// survivors is the oracle: what must be left after the deletion of root.
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

func TestNamespaceDeletion(t *testing.T) {
	inVirtualTime(t, onlyGC, func(w world) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
		w.create(ns)
		stuck := configMap("stuck")
		stuck.Namespace, stuck.Finalizers = "doomed", []string{"example.com/wait"}
		plain := configMap("plain")
		plain.Namespace = "doomed"
		w.create(stuck, plain)
		w.must(w.Delete(w.Context(), ns))
		w.waitIdle()

		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(ns), ns))
		got := map[corev1.NamespaceConditionType]string{}
		for _, c := range ns.Status.Conditions {
			got[c.Type] = string(c.Status) + " " + c.Message
		}
		if ns.Status.Phase != corev1.NamespaceTerminating ||
			got[corev1.NamespaceContentRemaining] != "True Some resources are remaining: configmaps. has 1 resource instances" ||
			got[corev1.NamespaceFinalizersRemaining] != "True Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances" {
			t.Errorf("%s %v", ns.Status.Phase, got)
		}
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(plain), plain); !apierrors.IsNotFound(err) {
			t.Errorf("an object without finalizers still exists: %v", err)
		}
		w.must(w.Patch(w.Context(), stuck, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		w.waitIdle()
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace still exists: %v", err)
		}
	})
}
