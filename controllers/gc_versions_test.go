package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/client"
)

// versions returns the versions of a definition: "v1" is served, "-v1" is not. The first one is
// stored.
func versions(names ...string) []any {
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

// define creates or updates the definition of Widgets.
func (w world) define(names ...string) {
	w.Helper()
	crd := definition()
	err := w.Get(w.Context(), client.ObjectKeyFromObject(crd), crd)
	w.must(client.IgnoreNotFound(err))
	w.must(unstructured.SetNestedSlice(crd.Object, versions(names...), "spec", "versions"))
	if apierrors.IsNotFound(err) {
		w.create(crd)
	} else {
		w.must(w.Update(w.Context(), crd))
	}
}

// TestOwnersSurviveVersions changes the versions of a kind. The dependents of its objects are kept,
// and are deleted when their owner is deleted afterwards.
func TestOwnersSurviveVersions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first string     // the version in which the objects are created
		steps [][]string // the versions, step by step
		last  string     // the version in which the owner is deleted
	}{
		{"v2 is added", "v1", [][]string{{"v1", "v2"}}, "v2"},
		{"v2 is added and stored", "v1", [][]string{{"v2", "v1"}}, "v1"},
		{"v1alpha1 becomes v1", "v1alpha1", [][]string{{"v1alpha1", "v1"}, {"v1", "v1alpha1"}, {"v1", "-v1alpha1"}}, "v1"},
		{"v1alpha1 becomes v1 at once", "v1alpha1", [][]string{{"v1", "-v1alpha1"}}, "v1"},
		{"v1beta1 is added, which is not preferred", "v1", [][]string{{"v1", "v1beta1"}}, "v1beta1"},
		{"the preferred version is not served any more", "v1", [][]string{{"v1", "v2"}, {"v1", "-v2"}}, "v1"},
		{"the first version is not served any more", "v1", [][]string{{"v1", "v2"}, {"-v1", "v2"}}, "v2"},
		{"nothing is served for a while", "v1", [][]string{{"-v1"}, {"v1"}}, "v1"},
		{"nothing is served, and then another version", "v1", [][]string{{"-v1"}, {"-v1", "v2"}}, "v2"},
		{"back and forth", "v1", [][]string{{"-v1"}, {"v1"}, {"v1", "v2"}, {"v1"}, {"-v1"}, {"v1"}}, "v1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, onlyGC, func(w world) {
				w.define(tt.first)
				in := func(version string, u *unstructured.Unstructured) *unstructured.Unstructured {
					u.SetAPIVersion("example.com/" + version)
					return u
				}
				parent := in(tt.first, widget("parent"))
				w.create(parent)
				child := in(tt.first, widget("child", parent))
				w.create(child, configMap("of-parent", parent))
				w.create(configMap("of-child", child))
				kept := uids(w, "of-child", "of-parent")
				w.want("of-child", "of-parent")
				for _, step := range tt.steps {
					w.define(step...)
					w.want("of-child", "of-parent")
				}
				// A dependent that is created in between has the same owner.
				w.create(configMap("of-parent-late", in(tt.last, parent)))
				w.want("of-child", "of-parent", "of-parent-late")
				if now := uids(w, "of-child", "of-parent"); !slices.Equal(kept, now) {
					w.Errorf("were created again: %v, were %v", now, kept)
				}
				w.must(w.Delete(w.Context(), in(tt.last, child)))
				w.want("of-parent", "of-parent-late")
				w.must(w.Delete(w.Context(), in(tt.last, parent)))
				w.want()
			})
		})
	}
}

func uids(w world, names ...string) (list []types.UID) {
	w.Helper()
	for _, name := range names {
		cm := configMap(name)
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(cm), cm))
		list = append(list, cm.UID)
	}
	return list
}

// TestUnobservedOwnerDeletion deletes owners just before their version, or their whole kind, is no
// longer served, so that the collector may not observe it.
func TestUnobservedOwnerDeletion(t *testing.T) {
	const n = 50
	for _, tt := range []struct {
		name  string
		after func(w world)
	}{
		{"their version is removed", func(w world) { w.define("-v1", "v2") }},
		{"their kind is removed and added again", func(w world) {
			w.define("-v1", "-v2")
			w.waitIdle()
			w.waitIdle()
			w.define("v1", "v2")
		}},
		{"their definition is deleted", func(w world) { w.must(w.Delete(w.Context(), definition())) }},
		{"their definition is deleted and created again", func(w world) {
			w.must(w.Delete(w.Context(), definition()))
			crd := definition()
			for !apierrors.IsNotFound(w.Get(w.Context(), client.ObjectKeyFromObject(crd), crd)) {
				synctest.Wait()
			}
			w.define("v1")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, onlyGC, func(w world) {
				w.define("v1", "v2")
				for i := range n {
					owner := widget(fmt.Sprint("owner", i))
					w.create(owner)
					w.create(configMap(fmt.Sprint("child", i), owner))
				}
				w.waitIdle()
				w.must(w.DeleteAllOf(w.Context(), widget(""), client.InNamespace("default")))
				tt.after(w)
				w.want()
			})
		})
	}
}

// TestAbandonedObjects deletes a definition whose finalizer was removed by a user: its objects stay
// in the storage, unreachable, and their dependents are kept.
func TestAbandonedObjects(t *testing.T) {
	inVirtualTime(t, onlyGC, func(w world) {
		w.define("v1")
		owner := widget("owner")
		held := widget("held")
		held.SetFinalizers([]string{"example.com/wait"})
		w.create(owner, held)
		w.create(configMap("of-owner", owner), configMap("of-held", held))
		w.waitIdle()

		crd := definition()
		w.must(w.Delete(w.Context(), crd))
		w.waitIdle()
		w.must(w.Patch(w.Context(), crd, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		w.want("of-held") // owner was deleted, and held is only being deleted

		w.define("v1")
		w.want("of-held")
		w.must(w.Patch(w.Context(), held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		w.want()
	})
}

// TestUnservedDependents deletes owners whose dependents are of a kind that is not served for a
// while.
func TestUnservedDependents(t *testing.T) {
	for _, tt := range []struct {
		how  metav1.DeletionPropagation
		left int
	}{{background, 0}, {foreground, 0}, {orphan, 1}} {
		t.Run(string(tt.how), func(t *testing.T) {
			inVirtualTime(t, onlyGC, func(w world) {
				w.define("v1")
				owner := configMap("owner")
				w.create(owner)
				child := widget("child", owner)
				w.create(child)
				w.waitIdle()
				w.define("-v1")
				w.waitIdle()
				w.must(w.Delete(w.Context(), owner, client.PropagationPolicy(tt.how)))
				w.waitIdle()
				w.define("-v1", "v2")
				w.want()

				list := &unstructured.UnstructuredList{}
				list.SetAPIVersion("example.com/v2")
				list.SetKind("WidgetList")
				w.must(w.List(w.Context(), list, client.InNamespace("default")))
				if len(list.Items) != tt.left {
					w.Fatalf("%d children are left, want %d", len(list.Items), tt.left)
				}
				for _, u := range list.Items {
					if len(u.GetOwnerReferences()) > 0 {
						w.Errorf("the child still has owners: %v", u.GetOwnerReferences())
					}
				}
			})
		})
	}
}

// TestDependentsThatCannotBeListed deletes owners while the objects of one kind, among them a
// dependent that was not observed, cannot be listed because they cannot be converted.
func TestDependentsThatCannotBeListed(t *testing.T) {
	broken := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": "https://127.0.0.1:1/"},
	}}
	for _, how := range []metav1.DeletionPropagation{foreground, orphan} {
		t.Run(string(how), func(t *testing.T) {
			inVirtualTime(t, onlyGC, func(w world) {
				owner := configMap("owner")
				w.create(owner)
				w.define("v1")
				child := widget("child")
				child.SetFinalizers([]string{"example.com/wait"})
				w.create(child)
				w.waitIdle()
				w.convert(broken, "-v1", "v2")
				w.waitIdle()
				w.convert(broken, "v1", "v2")
				w.must(w.Update(w.Context(), owned(child, owner)))

				w.must(w.Delete(w.Context(), owner, client.PropagationPolicy(how)))
				w.want("owner")
				w.convert(map[string]any{"strategy": "None"}, "v1", "v2")
				w.waitIdle()
				w.waitIdle()
				w.waitIdle()
				w.must(w.Get(w.Context(), client.ObjectKeyFromObject(child), child))
				if how == orphan {
					w.want()
					if len(child.GetOwnerReferences()) > 0 || child.GetDeletionTimestamp() != nil {
						w.Errorf("the child is %v", child.Object)
					}
					return
				}
				w.want("owner")
				if child.GetDeletionTimestamp() == nil {
					w.Error("the child was not deleted")
				}
				w.must(w.Patch(w.Context(), child, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
				w.want()
			})
		})
	}
}

// convert changes the conversion of Widgets.
func (w world) convert(conversion map[string]any, names ...string) {
	w.Helper()
	crd := definition()
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(crd), crd))
	w.must(unstructured.SetNestedSlice(crd.Object, versions(names...), "spec", "versions"))
	w.must(unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"))
	w.must(w.Update(w.Context(), crd))
}

// TestWorkloadSurvivesVersion adds a version to the kind that owns a Deployment and a Service.
func TestWorkloadSurvivesVersion(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(w world) {
		w.define("v1")
		app := widget("app")
		w.create(app)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app"}}
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		w.create(owned(deployment(3, "a"), app), owned(service, app))
		w.waitIdle()
		before := w.tree()
		if len(before) != 6 {
			w.Fatalf("there are %d objects, want a Deployment, a ReplicaSet, 3 Pods and a Service", len(before))
		}
		for _, names := range [][]string{{"v1", "v2"}, {"v2", "v1"}, {"v2", "-v1"}, {"-v2", "-v1"}, {"v2", "-v1"}} {
			w.define(names...)
			w.waitIdle()
			if after := w.tree(); !slices.Equal(before, after) {
				w.Fatalf("with versions %v there is\n%v\nbefore there was\n%v", names, after, before)
			}
		}
		app.SetAPIVersion("example.com/v2")
		w.must(w.Delete(w.Context(), app))
		w.waitIdle()
		if after := w.tree(); len(after) > 0 {
			w.Errorf("there is still %v", after)
		}
	})
}

// tree lists the objects of a workload, by kind, name and UID.
func (w world) tree() []string {
	w.Helper()
	var names []string
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{}, &corev1.ServiceList{}} {
		kind, err := w.GroupVersionKindFor(list)
		w.must(err)
		all := &metav1.PartialObjectMetadataList{}
		all.SetGroupVersionKind(kind)
		w.must(w.List(w.Context(), all, client.InNamespace("default")))
		for _, m := range all.Items {
			if m.Name != "kubernetes" {
				names = append(names, fmt.Sprint(kind.Kind, " ", m.Name, " ", m.UID))
			}
		}
	}
	slices.Sort(names)
	return names
}
