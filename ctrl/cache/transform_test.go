package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
)

// inAllRepresentations returns an object of a kind in each representation.
func inAllRepresentations() []client.Object {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	u.SetGroupVersionKind(gvk)
	m.SetGroupVersionKind(gvk)
	return []client.Object{&corev1.ConfigMap{}, u, m}
}

// A transform need not be safe for concurrent use: its calls for a kind are serialized, across
// representations, namespaces, watches and writers.
func TestTransformsAreSerialized(t *testing.T) {
	t.Run("own informers", func(t *testing.T) { testTransformsAreSerialized(t, Options{}) })
	t.Run("custom informers", func(t *testing.T) {
		testTransformsAreSerialized(t, Options{NewInformer: toolscache.NewSharedIndexInformer})
	})
}

// testTransformsAreSerialized runs informers and writers with a transform that is not safe for
// concurrent use.
func testTransformsAreSerialized(t *testing.T, opts Options) {
	withServer(t, func(t *testing.T, s *server) {
		calls := map[string]int{} // not synchronized, for the race detector
		running := false
		opts.DefaultNamespaces = map[string]Config{"a": {}, "b": {}}
		opts.DefaultTransform = func(obj any) (any, error) {
			if running {
				t.Error("concurrent calls")
			}
			running = true
			time.Sleep(time.Millisecond) // lets other goroutines run
			running = false
			o := obj.(client.Object)
			calls[o.GetNamespace()+"/"+o.GetName()]++
			return obj, nil
		}
		c := newTestCache(t, s, opts)
		for _, obj := range inAllRepresentations() {
			if _, err := c.GetInformer(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		startCache(t, c)
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for n := range 5 {
					name := fmt.Sprint("new-", w, "-", n)
					c.Wrote(t.Context(), s.put(configMap("a", name, "number", "7")))
					expect(t, get(t, c, "a", name), "7")
				}
			})
		}
		writers.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(calls) != 4+4+20 {
			t.Errorf("%d objects were transformed", len(calls))
		}
	})
}

// A blocked transform does not block other kinds.
func TestTransformsOfOtherKinds(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		release := make(chan struct{})
		c := newTestCache(t, s, Options{DefaultTransform: func(obj any) (any, error) {
			if _, ok := obj.(*corev1.ConfigMap); ok {
				<-release
			}
			return obj, nil
		}})
		if _, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
			t.Fatal(err)
		}
		startCache(t, c)
		if err := c.Get(t.Context(), key("", "node"), &corev1.Node{}); err != nil {
			t.Error(err)
		}
		close(release)
	})
}

// A transform that writes and reads its own kind fails after a timeout, instead of a deadlock; the
// cache is correct afterwards.
func TestTransformThatWrites(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		var c *informerCache
		nested := 0
		c = newTestCache(t, s, Options{DefaultTransform: func(obj any) (any, error) {
			if obj.(client.Object).GetName() != "outer" {
				return obj, nil
			}
			nested++
			began := time.Now()
			ctx := context.Background()
			c.Wrote(ctx, s.put(configMap("a", "inner", "number", fmt.Sprint(nested))))
			if err := c.Get(ctx, key("a", "inner"), &corev1.ConfigMap{}); !errors.Is(err, errLocked) {
				t.Errorf("a nested read: %v", err)
			}
			if took := time.Since(began); took > 2*lockTimeout {
				t.Errorf("it took %v", took)
			}
			return obj, nil
		}})
		if _, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
			t.Fatal(err)
		}
		startCache(t, c)
		s.breakWatches("")
		synctest.Wait()
		c.Wrote(t.Context(), s.put(configMap("a", "outer", "number", "7")))
		expect(t, get(t, c, "a", "outer"), "7")
		time.Sleep(time.Minute)
		expect(t, get(t, c, "a", "outer"), "7")
		expect(t, get(t, c, "a", "inner"), fmt.Sprint(nested))
		if nested < 2 {
			t.Errorf("%d nested writes", nested)
		}
	})
}

// The results of live reads are transformed.
func TestLiveReadsAreTransformed(t *testing.T) {
	opts := Options{
		DefaultFieldSelector: fields.OneTermEqualSelector("data.known", "to the server"),
		DefaultTransform: func(obj any) (any, error) {
			obj.(client.Object).SetAnnotations(map[string]string{"transformed": "yes"})
			return obj, nil
		},
	}
	withBrokenWatch(t, opts, func(t *testing.T, s *server, c *informerCache, _ func()) {
		cm := configMap("a", "new")
		cm.Data = map[string]string{"known": "to the server"}
		c.Wrote(t.Context(), s.put(cm))
		var got corev1.ConfigMap
		if err := c.Get(t.Context(), key("a", "new"), &got); err != nil || got.Annotations["transformed"] != "yes" {
			t.Errorf("read %v, %v", got.Annotations, err)
		}
	})
}

// A transform that reads the object that it transforms does not deadlock with itself, nor with
// readers that wait for it.
func TestTransformThatReadsItsObject(t *testing.T) {
	var c *informerCache
	var once sync.Once // the watch delivers the object too
	var nested error
	opts := Options{
		DefaultFieldSelector: fields.OneTermEqualSelector("data.known", "to the server"),
		DefaultTransform: func(obj any) (any, error) {
			if obj.(client.Object).GetName() == "new" {
				once.Do(func() { nested = c.Get(context.Background(), key("a", "new"), &corev1.ConfigMap{}) })
			}
			return obj, nil
		},
	}
	withBrokenWatch(t, opts, func(t *testing.T, s *server, own *informerCache, _ func()) {
		c = own
		cm := configMap("a", "new")
		cm.Data = map[string]string{"known": "to the server"}
		c.Wrote(t.Context(), s.put(cm))
		if err := c.Get(t.Context(), key("a", "new"), &corev1.ConfigMap{}); err != nil {
			t.Error(err)
		}
		once.Do(func() { t.Error("the object was not transformed") })
		if !errors.Is(nested, errLocked) {
			t.Errorf("nested read: %v", nested)
		}
	})
}

// A live read returns its result, not the stale object, if its context ends while the result is being
// transformed.
func TestContextEndsDuringTransform(t *testing.T) {
	cancel := func() {}
	opts := Options{
		DefaultFieldSelector: fields.OneTermEqualSelector("data.known", "to the server"),
		DefaultTransform: func(obj any) (any, error) {
			cancel()
			return obj, nil
		},
	}
	withBrokenWatch(t, opts, func(t *testing.T, s *server, c *informerCache, _ func()) {
		cm := configMap("a", "new")
		cm.Data = map[string]string{"known": "to the server"}
		c.Wrote(t.Context(), s.put(cm))
		ctx, end := context.WithCancel(t.Context())
		defer end()
		cancel = end
		if err := c.Get(ctx, key("a", "new"), &corev1.ConfigMap{}); err != nil {
			t.Error(err)
		}
	})
}

// Calls of index functions are serialized.
func TestIndexFunctionsAreSerialized(t *testing.T) {
	withBrokenWatch(t, Options{}, func(t *testing.T, s *server, c *informerCache, _ func()) {
		calls := map[string]int{}
		if err := c.IndexField(t.Context(), &corev1.ConfigMap{}, "number", func(obj client.Object) []string {
			calls[obj.GetName()]++
			return []string{obj.GetLabels()["number"]}
		}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				for range 50 {
					c.Wrote(t.Context(), s.put(configMap("a", fmt.Sprint("new-", n), "number", "1")))
					names(t, c, client.MatchingFields{"number": "1"}, client.DisableReadYourWritesConsistency)
				}
			})
		}
		all.Wait()
	})
}
