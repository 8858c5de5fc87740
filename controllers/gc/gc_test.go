package gc_test

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
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

// listConfigMaps returns the names of the ConfigMaps in the namespace default.
func listConfigMaps(e controllerstest.Env) []string {
	e.Helper()
	list := &corev1.ConfigMapList{}
	e.Must(e.List(e.Context(), list, client.InNamespace("default")))
	names := []string{}
	for _, cm := range list.Items {
		names = append(names, cm.Name)
	}
	return names
}

func wantConfigMaps(e controllerstest.Env, names ...string) {
	e.Helper()
	e.WaitIdle()
	if got := listConfigMaps(e); !slices.Equal(got, names) {
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
			controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
				owner := controllerstest.ConfigMap("a-owner")
				e.CreateAll(owner)
				child := controllerstest.ConfigMap("child", owner)
				e.CreateAll(child)
				e.CreateAll(controllerstest.ConfigMap("grandchild", child), controllerstest.ConfigMap("other"))
				e.WaitIdle()
				e.Must(e.Delete(e.Context(), owner, client.PropagationPolicy(tt.how)))
				wantConfigMaps(e, tt.left...)
			})
		})
	}
}

// TestOrphansThatAreNotObserved deletes owners right after a dependent of another kind was created,
// which the collector may not have observed yet.
func TestOrphansThatAreNotObserved(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		const n = 100
		for i := range n {
			owner := controllerstest.ConfigMap(fmt.Sprint("owner", i))
			e.CreateAll(owner)
			e.CreateAll(controllerstest.Owned(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("child", i)}}, owner))
			e.Must(e.Delete(e.Context(), owner, client.PropagationPolicy(orphan)))
		}
		wantConfigMaps(e)
		list := &corev1.SecretList{}
		e.Must(e.List(e.Context(), list, client.InNamespace("default")))
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
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		owner := controllerstest.ConfigMap("a-owner")
		e.CreateAll(owner)
		child := controllerstest.ConfigMap("child", owner)
		child.Finalizers = []string{"example.com/wait"}
		e.CreateAll(child)
		e.Must(e.Delete(e.Context(), owner, client.PropagationPolicy(foreground)))
		wantConfigMaps(e, "a-owner", "child")
		e.Must(e.Patch(e.Context(), child, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		wantConfigMaps(e)
	})
}

func TestDependentsOfAbsentOwners(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		owner := controllerstest.ConfigMap("a-owner")
		e.CreateAll(owner)
		never := controllerstest.ConfigMap("never")
		never.UID = "never-existed"
		impostor := controllerstest.ConfigMap("a-owner")
		impostor.UID = "of-one-before"
		e.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
		elsewhere := controllerstest.ConfigMap("elsewhere")
		elsewhere.Namespace = "other"
		e.CreateAll(elsewhere)
		unserved := controllerstest.Owned(controllerstest.ConfigMap("unserved"), controllerstest.Kindless("Nothing", "example.com/v1"))

		e.CreateAll(controllerstest.ConfigMap("kept", owner), controllerstest.ConfigMap("owner-never-existed", never), controllerstest.ConfigMap("owner-of-that-name", impostor),
			controllerstest.ConfigMap("owner-elsewhere", elsewhere), controllerstest.ConfigMap("one-of-two", owner, never), unserved)
		wantConfigMaps(e, "a-owner", "kept", "one-of-two", "unserved")

		one := &corev1.ConfigMap{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "one-of-two"}, one))
		if len(one.OwnerReferences) != 1 || one.OwnerReferences[0].UID != owner.UID {
			t.Errorf("the owners are %v", one.OwnerReferences)
		}
	})
}

// TestDependentThatChanges updates an object whenever the collector is about to delete it.
func TestDependentThatChanges(t *testing.T) {
	changes := 0
	controllerstest.WithController(t, "garbage-collector-controller", func(e controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				changes++
				label := fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, changes)
				e.Must(e.Patch(ctx, controllerstest.ConfigMap(obj.GetName()), client.RawPatch(types.MergePatchType, label)))
				return c.Delete(ctx, obj, opts...)
			},
		}
	}, func(e controllerstest.Env) {
		owner := controllerstest.ConfigMap("owner")
		e.CreateAll(owner)
		e.CreateAll(controllerstest.ConfigMap("child", owner))
		e.WaitIdle()
		e.Must(e.Delete(e.Context(), owner))
		wantConfigMaps(e)
	})
}

func TestKindsAreAddedAndRemoved(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		never := controllerstest.Kindless("Widget", "example.com/v1")
		e.CreateAll(controllerstest.Owned(controllerstest.ConfigMap("early"), never))
		wantConfigMaps(e, "early") // it is not known whether the widget exists

		crd := controllerstest.WidgetDefinition()
		e.CreateAll(crd)
		wantConfigMaps(e)

		parent := controllerstest.Widget("parent")
		e.CreateAll(parent)
		child := controllerstest.Widget("child", parent)
		e.CreateAll(child, controllerstest.ConfigMap("of-parent", parent))
		e.CreateAll(controllerstest.ConfigMap("of-child", child))
		wantConfigMaps(e, "of-child", "of-parent")
		e.Must(e.Delete(e.Context(), parent))
		wantConfigMaps(e)

		last := controllerstest.Widget("last")
		e.CreateAll(last)
		e.CreateAll(controllerstest.ConfigMap("of-last", last))
		wantConfigMaps(e, "of-last")
		e.Must(e.Delete(e.Context(), crd))
		wantConfigMaps(e)

		again := controllerstest.WidgetDefinition()
		e.CreateAll(again)
		e.WaitIdle()
		parent = controllerstest.Widget("parent")
		e.CreateAll(parent)
		e.CreateAll(controllerstest.ConfigMap("of-parent", parent))
		wantConfigMaps(e, "of-parent")
		e.Must(e.Delete(e.Context(), parent))
		wantConfigMaps(e)
	})
}

// TestRandomOwnersAgainstOracle creates random owner graphs through the API, deletes one object, and compares the
// remaining objects with a simple fixpoint.
func TestRandomOwnersAgainstOracle(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
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
				cm := controllerstest.ConfigMap(name, of...)
				e.CreateAll(cm)
				all = append(all, cm)
			}
			root := all[r.IntN(len(all))]
			how := []metav1.DeletionPropagation{background, foreground, orphan}[r.IntN(3)]
			e.Must(e.Delete(e.Context(), root, client.PropagationPolicy(how)))
			e.WaitIdle()
			if got, want := strings.Join(listConfigMaps(e), " "), survivors(owners, root.Name, how); got != want {
				t.Fatalf("seed %d: after %s deletion of %s there is\n%s\nwant\n%s", seed, how, root.Name, got, want)
			}
			e.Must(e.DeleteAllOf(e.Context(), &corev1.ConfigMap{}, client.InNamespace("default")))
			wantConfigMaps(e)
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
