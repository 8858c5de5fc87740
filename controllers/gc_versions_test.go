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
func (e env) define(names ...string) {
	e.Helper()
	crd := definition()
	err := e.Get(e.Context(), client.ObjectKeyFromObject(crd), crd)
	e.must(client.IgnoreNotFound(err))
	e.must(unstructured.SetNestedSlice(crd.Object, versions(names...), "spec", "versions"))
	if apierrors.IsNotFound(err) {
		e.create(crd)
	} else {
		e.must(e.Update(e.Context(), crd))
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
			inVirtualTime(t, onlyGC, func(e env) {
				e.define(tt.first)
				in := func(version string, u *unstructured.Unstructured) *unstructured.Unstructured {
					u.SetAPIVersion("example.com/" + version)
					return u
				}
				parent := in(tt.first, widget("parent"))
				e.create(parent)
				child := in(tt.first, widget("child", parent))
				e.create(child, configMap("of-parent", parent))
				e.create(configMap("of-child", child))
				kept := uids(e, "of-child", "of-parent")
				e.want("of-child", "of-parent")
				for _, step := range tt.steps {
					e.define(step...)
					e.want("of-child", "of-parent")
				}
				// A dependent that is created in between has the same owner.
				e.create(configMap("of-parent-late", in(tt.last, parent)))
				e.want("of-child", "of-parent", "of-parent-late")
				if now := uids(e, "of-child", "of-parent"); !slices.Equal(kept, now) {
					e.Errorf("were created again: %v, were %v", now, kept)
				}
				e.must(e.Delete(e.Context(), in(tt.last, child)))
				e.want("of-parent", "of-parent-late")
				e.must(e.Delete(e.Context(), in(tt.last, parent)))
				e.want()
			})
		})
	}
}

func uids(e env, names ...string) (list []types.UID) {
	e.Helper()
	for _, name := range names {
		cm := configMap(name)
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(cm), cm))
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
		after func(e env)
	}{
		{"their version is removed", func(e env) { e.define("-v1", "v2") }},
		{"their kind is removed and added again", func(e env) {
			e.define("-v1", "-v2")
			e.waitIdle()
			e.waitIdle()
			e.define("v1", "v2")
		}},
		{"their definition is deleted", func(e env) { e.must(e.Delete(e.Context(), definition())) }},
		{"their definition is deleted and created again", func(e env) {
			e.must(e.Delete(e.Context(), definition()))
			crd := definition()
			for !apierrors.IsNotFound(e.Get(e.Context(), client.ObjectKeyFromObject(crd), crd)) {
				synctest.Wait()
			}
			e.define("v1")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, onlyGC, func(e env) {
				e.define("v1", "v2")
				for i := range n {
					owner := widget(fmt.Sprint("owner", i))
					e.create(owner)
					e.create(configMap(fmt.Sprint("child", i), owner))
				}
				e.waitIdle()
				e.must(e.DeleteAllOf(e.Context(), widget(""), client.InNamespace("default")))
				tt.after(e)
				e.want()
			})
		})
	}
}

// TestAbandonedObjects deletes a definition after a user has removed its finalizer. Its objects stay in the storage,
// unreachable, and their dependents are kept.
func TestAbandonedObjects(t *testing.T) {
	inVirtualTime(t, onlyGC, func(e env) {
		e.define("v1")
		owner := widget("owner")
		held := widget("held")
		held.SetFinalizers([]string{"example.com/wait"})
		e.create(owner, held)
		e.create(configMap("of-owner", owner), configMap("of-held", held))
		e.waitIdle()

		crd := definition()
		e.must(e.Delete(e.Context(), crd))
		e.waitIdle()
		e.must(e.Patch(e.Context(), crd, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		e.want("of-held") // owner was deleted, and held is only being deleted

		e.define("v1")
		e.want("of-held")
		e.must(e.Patch(e.Context(), held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		e.want()
	})
}

// TestUnservedDependents deletes owners of dependents of a kind that is temporarily not served.
func TestUnservedDependents(t *testing.T) {
	for _, tt := range []struct {
		how  metav1.DeletionPropagation
		left int
	}{{background, 0}, {foreground, 0}, {orphan, 1}} {
		t.Run(string(tt.how), func(t *testing.T) {
			inVirtualTime(t, onlyGC, func(e env) {
				e.define("v1")
				owner := configMap("owner")
				e.create(owner)
				child := widget("child", owner)
				e.create(child)
				e.waitIdle()
				e.define("-v1")
				e.waitIdle()
				e.must(e.Delete(e.Context(), owner, client.PropagationPolicy(tt.how)))
				e.waitIdle()
				e.define("-v1", "v2")
				e.want()

				list := &unstructured.UnstructuredList{}
				list.SetAPIVersion("example.com/v2")
				list.SetKind("WidgetList")
				e.must(e.List(e.Context(), list, client.InNamespace("default")))
				if len(list.Items) != tt.left {
					e.Fatalf("%d children are left, want %d", len(list.Items), tt.left)
				}
				for _, u := range list.Items {
					if len(u.GetOwnerReferences()) > 0 {
						e.Errorf("the child still has owners: %v", u.GetOwnerReferences())
					}
				}
			})
		})
	}
}

// TestDependentsThatCannotBeListed deletes owners while the objects of one kind cannot be listed, because their
// conversion fails. A dependent that was not observed is among them.
func TestDependentsThatCannotBeListed(t *testing.T) {
	broken := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": "https://127.0.0.1:1/"},
	}}
	for _, how := range []metav1.DeletionPropagation{foreground, orphan} {
		t.Run(string(how), func(t *testing.T) {
			inVirtualTime(t, onlyGC, func(e env) {
				owner := configMap("owner")
				e.create(owner)
				e.define("v1")
				child := widget("child")
				child.SetFinalizers([]string{"example.com/wait"})
				e.create(child)
				e.waitIdle()
				e.convert(broken, "-v1", "v2")
				e.waitIdle()
				e.convert(broken, "v1", "v2")
				e.must(e.Update(e.Context(), owned(child, owner)))

				e.must(e.Delete(e.Context(), owner, client.PropagationPolicy(how)))
				e.want("owner")
				e.convert(map[string]any{"strategy": "None"}, "v1", "v2")
				e.waitIdle()
				e.waitIdle()
				e.waitIdle()
				e.must(e.Get(e.Context(), client.ObjectKeyFromObject(child), child))
				if how == orphan {
					e.want()
					if len(child.GetOwnerReferences()) > 0 || child.GetDeletionTimestamp() != nil {
						e.Errorf("the child is %v", child.Object)
					}
					return
				}
				e.want("owner")
				if child.GetDeletionTimestamp() == nil {
					e.Error("the child was not deleted")
				}
				e.must(e.Patch(e.Context(), child, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
				e.want()
			})
		})
	}
}

// convert changes the conversion of Widgets.
func (e env) convert(conversion map[string]any, names ...string) {
	e.Helper()
	crd := definition()
	e.must(e.Get(e.Context(), client.ObjectKeyFromObject(crd), crd))
	e.must(unstructured.SetNestedSlice(crd.Object, versions(names...), "spec", "versions"))
	e.must(unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"))
	e.must(e.Update(e.Context(), crd))
}

// TestWorkloadSurvivesVersion adds a version to the kind that owns a Deployment and a Service.
func TestWorkloadSurvivesVersion(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.define("v1")
		app := widget("app")
		e.create(app)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app"}}
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		e.create(owned(deployment(3, "a"), app), owned(service, app))
		e.waitIdle()
		before := e.tree()
		if len(before) != 6 {
			e.Fatalf("there are %d objects, want a Deployment, a ReplicaSet, 3 Pods and a Service", len(before))
		}
		for _, names := range [][]string{{"v1", "v2"}, {"v2", "v1"}, {"v2", "-v1"}, {"-v2", "-v1"}, {"v2", "-v1"}} {
			e.define(names...)
			e.waitIdle()
			if after := e.tree(); !slices.Equal(before, after) {
				e.Fatalf("with versions %v there is\n%v\nbefore there was\n%v", names, after, before)
			}
		}
		app.SetAPIVersion("example.com/v2")
		e.must(e.Delete(e.Context(), app))
		e.waitIdle()
		if after := e.tree(); len(after) > 0 {
			e.Errorf("there is still %v", after)
		}
	})
}

// tree lists the objects of a workload, by kind, name and UID.
func (e env) tree() []string {
	e.Helper()
	var names []string
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{}, &corev1.ServiceList{}} {
		kind, err := e.GroupVersionKindFor(list)
		e.must(err)
		all := &metav1.PartialObjectMetadataList{}
		all.SetGroupVersionKind(kind)
		e.must(e.List(e.Context(), all, client.InNamespace("default")))
		for _, m := range all.Items {
			if m.Name != "kubernetes" {
				names = append(names, fmt.Sprint(kind.Kind, " ", m.Name, " ", m.UID))
			}
		}
	}
	slices.Sort(names)
	return names
}
