package benchmarks

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/runtimes"
)

// TestSameObjects proves that both runtimes return the objects that were made,
// whole, before and after they change.
func TestSameObjects(t *testing.T) {
	const n = 30
	for _, kind := range []fixture.Kind{fixture.Pods, fixture.ConfigMaps, fixture.Widgets, fixture.UnstructuredWidgets} {
		for _, rt := range both {
			t.Run(kind.Name+"/"+rt.Name(), func(t *testing.T) {
				replay, err := fixture.NewReplay(kind, n, true)
				if err != nil {
					t.Fatal(err)
				}
				observer := newObserver(n)
				c, err := startCache(t.Context(), rt, replay.Server(), func(c runtimes.Cache) error {
					return c.Handle(t.Context(), kind.One(), observer)
				}, kind)
				if err != nil {
					t.Fatal(err)
				}
				defer c.stop()
				sameObjects(t, c, kind, n)
				if err := c.wait(t.Context(), observer.all); err != nil {
					t.Fatal(err)
				}

				last, send, err := replay.Burst(0, n)
				if err != nil {
					t.Fatal(err)
				}
				observer.expect(last)
				send()
				if err := c.wait(t.Context(), observer.seen); err != nil {
					t.Fatal(err)
				}
				sameObjects(t, c, kind, n)
			})
		}
	}
}

// TestSamePages proves the same for objects that come in pages.
func TestSamePages(t *testing.T) {
	const n = 1234
	for _, kind := range []fixture.Kind{fixture.Pods, fixture.UnstructuredWidgets} {
		for _, rt := range both {
			t.Run(kind.Name+"/"+rt.Name(), func(t *testing.T) {
				replay, err := fixture.NewPagedReplay(kind, n)
				if err != nil {
					t.Fatal(err)
				}
				c, err := startCache(t.Context(), rt, replay.Server(), unprepared, kind)
				if err != nil {
					t.Fatal(err)
				}
				defer c.stop()
				sameObjects(t, c, kind, n)
			})
		}
	}
}

func sameObjects(t *testing.T, c runtimes.Cache, kind fixture.Kind, n int) {
	t.Helper()
	for i := range n {
		got := kind.One()
		if err := c.Get(t.Context(), fixture.KeyOf(i), got); err != nil {
			t.Fatal(err)
		}
		want := kind.Served(i, got.GetResourceVersion())
		if g, w := content(t, got), content(t, want); !equality.Semantic.DeepEqual(g, w) {
			t.Fatalf("got %v, want %v", g, w)
		}
	}
}

// content returns the content of an object without its type metadata.
func content(t *testing.T, obj runtimes.Object) map[string]any {
	t.Helper()
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		u = &unstructured.Unstructured{Object: content}
	}
	delete(u.Object, "apiVersion")
	delete(u.Object, "kind")
	return u.Object
}
