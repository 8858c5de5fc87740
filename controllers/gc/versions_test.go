package gc_test

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
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

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
			controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
				e.DefineWidgets(tt.first)
				in := func(version string, u *unstructured.Unstructured) *unstructured.Unstructured {
					u.SetAPIVersion("example.com/" + version)
					return u
				}
				parent := in(tt.first, controllerstest.Widget("parent"))
				e.CreateAll(parent)
				child := in(tt.first, controllerstest.Widget("child", parent))
				e.CreateAll(child, controllerstest.ConfigMap("of-parent", parent))
				e.CreateAll(controllerstest.ConfigMap("of-child", child))
				kept := uids(e, "of-child", "of-parent")
				wantConfigMaps(e, "of-child", "of-parent")
				for _, step := range tt.steps {
					e.DefineWidgets(step...)
					wantConfigMaps(e, "of-child", "of-parent")
				}
				// A dependent that is created in between has the same owner.
				e.CreateAll(controllerstest.ConfigMap("of-parent-late", in(tt.last, parent)))
				wantConfigMaps(e, "of-child", "of-parent", "of-parent-late")
				if now := uids(e, "of-child", "of-parent"); !slices.Equal(kept, now) {
					e.Errorf("were created again: %v, were %v", now, kept)
				}
				e.Must(e.Delete(e.Context(), in(tt.last, child)))
				wantConfigMaps(e, "of-parent", "of-parent-late")
				e.Must(e.Delete(e.Context(), in(tt.last, parent)))
				wantConfigMaps(e)
			})
		})
	}
}

func uids(e controllerstest.Env, names ...string) (list []types.UID) {
	e.Helper()
	for _, name := range names {
		cm := controllerstest.ConfigMap(name)
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(cm), cm))
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
		after func(e controllerstest.Env)
	}{
		{"their version is removed", func(e controllerstest.Env) { e.DefineWidgets("-v1", "v2") }},
		{"their kind is removed and added again", func(e controllerstest.Env) {
			e.DefineWidgets("-v1", "-v2")
			e.WaitIdle()
			e.WaitIdle()
			e.DefineWidgets("v1", "v2")
		}},
		{"their definition is deleted", func(e controllerstest.Env) { e.Must(e.Delete(e.Context(), controllerstest.WidgetDefinition())) }},
		{"their definition is deleted and created again", func(e controllerstest.Env) {
			e.Must(e.Delete(e.Context(), controllerstest.WidgetDefinition()))
			crd := controllerstest.WidgetDefinition()
			for !apierrors.IsNotFound(e.Get(e.Context(), client.ObjectKeyFromObject(crd), crd)) {
				synctest.Wait()
			}
			e.DefineWidgets("v1")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
				e.DefineWidgets("v1", "v2")
				for i := range n {
					owner := controllerstest.Widget(fmt.Sprint("owner", i))
					e.CreateAll(owner)
					e.CreateAll(controllerstest.ConfigMap(fmt.Sprint("child", i), owner))
				}
				e.WaitIdle()
				e.Must(e.DeleteAllOf(e.Context(), controllerstest.Widget(""), client.InNamespace("default")))
				tt.after(e)
				wantConfigMaps(e)
			})
		})
	}
}

// TestAbandonedObjects deletes a definition after a user has removed its finalizer. Its objects stay in the storage,
// unreachable, and their dependents are kept.
func TestAbandonedObjects(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		e.DefineWidgets("v1")
		owner := controllerstest.Widget("owner")
		held := controllerstest.Widget("held")
		held.SetFinalizers([]string{"example.com/wait"})
		e.CreateAll(owner, held)
		e.CreateAll(controllerstest.ConfigMap("of-owner", owner), controllerstest.ConfigMap("of-held", held))
		e.WaitIdle()

		crd := controllerstest.WidgetDefinition()
		e.Must(e.Delete(e.Context(), crd))
		e.WaitIdle()
		e.Must(e.Patch(e.Context(), crd, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		wantConfigMaps(e, "of-held") // owner was deleted, and held is only being deleted

		e.DefineWidgets("v1")
		wantConfigMaps(e, "of-held")
		e.Must(e.Patch(e.Context(), held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		wantConfigMaps(e)
	})
}

// TestUnservedDependents deletes owners of dependents of a kind that is temporarily not served.
func TestUnservedDependents(t *testing.T) {
	for _, tt := range []struct {
		how  metav1.DeletionPropagation
		left int
	}{{background, 0}, {foreground, 0}, {orphan, 1}} {
		t.Run(string(tt.how), func(t *testing.T) {
			controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
				e.DefineWidgets("v1")
				owner := controllerstest.ConfigMap("owner")
				e.CreateAll(owner)
				child := controllerstest.Widget("child", owner)
				e.CreateAll(child)
				e.WaitIdle()
				e.DefineWidgets("-v1")
				e.WaitIdle()
				e.Must(e.Delete(e.Context(), owner, client.PropagationPolicy(tt.how)))
				e.WaitIdle()
				e.DefineWidgets("-v1", "v2")
				wantConfigMaps(e)

				list := &unstructured.UnstructuredList{}
				list.SetAPIVersion("example.com/v2")
				list.SetKind("WidgetList")
				e.Must(e.List(e.Context(), list, client.InNamespace("default")))
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
			controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
				owner := controllerstest.ConfigMap("owner")
				e.CreateAll(owner)
				e.DefineWidgets("v1")
				child := controllerstest.Widget("child")
				child.SetFinalizers([]string{"example.com/wait"})
				e.CreateAll(child)
				e.WaitIdle()
				convertWidgets(e, broken, "-v1", "v2")
				e.WaitIdle()
				convertWidgets(e, broken, "v1", "v2")
				e.Must(e.Update(e.Context(), controllerstest.Owned(child, owner)))

				e.Must(e.Delete(e.Context(), owner, client.PropagationPolicy(how)))
				wantConfigMaps(e, "owner")
				convertWidgets(e, map[string]any{"strategy": "None"}, "v1", "v2")
				e.WaitIdle()
				e.WaitIdle()
				e.WaitIdle()
				e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(child), child))
				if how == orphan {
					wantConfigMaps(e)
					if len(child.GetOwnerReferences()) > 0 || child.GetDeletionTimestamp() != nil {
						e.Errorf("the child is %v", child.Object)
					}
					return
				}
				wantConfigMaps(e, "owner")
				if child.GetDeletionTimestamp() == nil {
					e.Error("the child was not deleted")
				}
				e.Must(e.Patch(e.Context(), child, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
				wantConfigMaps(e)
			})
		})
	}
}

// convertWidgets changes the conversion of Widgets.
func convertWidgets(e controllerstest.Env, conversion map[string]any, names ...string) {
	e.Helper()
	crd := controllerstest.WidgetDefinition()
	e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(crd), crd))
	e.Must(unstructured.SetNestedSlice(crd.Object, controllerstest.Versions(names...), "spec", "versions"))
	e.Must(unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"))
	e.Must(e.Update(e.Context(), crd))
}

// TestWorkloadSurvivesVersion adds a version to the kind that owns a Deployment and a Service.
func TestWorkloadSurvivesVersion(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.DefineWidgets("v1")
		app := controllerstest.Widget("app")
		e.CreateAll(app)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app"}}
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		e.CreateAll(controllerstest.Owned(controllerstest.Deployment(3, "a"), app), controllerstest.Owned(service, app))
		e.WaitIdle()
		before := treeOf(e)
		if len(before) != 6 {
			e.Fatalf("there are %d objects, want a Deployment, a ReplicaSet, 3 Pods and a Service", len(before))
		}
		for _, names := range [][]string{{"v1", "v2"}, {"v2", "v1"}, {"v2", "-v1"}, {"-v2", "-v1"}, {"v2", "-v1"}} {
			e.DefineWidgets(names...)
			e.WaitIdle()
			if after := treeOf(e); !slices.Equal(before, after) {
				e.Fatalf("with versions %v there is\n%v\nbefore there was\n%v", names, after, before)
			}
		}
		app.SetAPIVersion("example.com/v2")
		e.Must(e.Delete(e.Context(), app))
		e.WaitIdle()
		if after := treeOf(e); len(after) > 0 {
			e.Errorf("there is still %v", after)
		}
	})
}

// treeOf lists the objects of a workload, by kind, name and UID.
func treeOf(e controllerstest.Env) []string {
	e.Helper()
	var names []string
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{}, &corev1.ServiceList{}} {
		kind, err := e.GroupVersionKindFor(list)
		e.Must(err)
		all := &metav1.PartialObjectMetadataList{}
		all.SetGroupVersionKind(kind)
		e.Must(e.List(e.Context(), all, client.InNamespace("default")))
		for _, m := range all.Items {
			if m.Name != "kubernetes" {
				names = append(names, fmt.Sprint(kind.Kind, " ", m.Name, " ", m.UID))
			}
		}
	}
	slices.Sort(names)
	return names
}
