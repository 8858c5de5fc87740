package cache

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"flyball.dev/ctrl/client"
)

// withBrokenWatch runs a test with a watch that delivers nothing before catchUp is called: all
// connections are broken, and the reflector is backing off.
func withBrokenWatch(t *testing.T, opts Options, f func(t *testing.T, s *server, c *informerCache, catchUp func())) {
	t.Helper()
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, opts)
		r := &recorder{}
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.AddEventHandler(r); err != nil {
			t.Fatal(err)
		}
		startCache(t, c)
		synctest.Wait()
		r.recorded = nil
		s.breakWatches("")
		synctest.Wait()
		f(t, s, c, func() {
			t.Helper()
			r.expect(t) // a write does not cause events before the watch delivers it
			time.Sleep(time.Minute)
		})
	})
}

func get(t *testing.T, c client.Reader, namespace, name string, opts ...client.GetOption) string {
	t.Helper()
	var cm corev1.ConfigMap
	err := c.Get(t.Context(), key(namespace, name), &cm, opts...)
	if apierrors.IsNotFound(err) {
		return "not found"
	}
	if err != nil {
		t.Fatal(err)
	}
	return cm.Labels["number"]
}

// Reads see own writes before the watch delivers them, unless they opt out.
func TestReadYourWrites(t *testing.T) {
	withBrokenWatch(t, Options{}, func(t *testing.T, s *server, c *informerCache, catchUp func()) {
		ctx := t.Context()
		c.Wrote(ctx, s.put(configMap("a", "new", "number", "7")))
		c.Wrote(ctx, s.put(configMap("a", "cm-1", "number", "7")))
		c.Wrote(ctx, s.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}))
		expect(t, get(t, c, "a", "new"), "7")
		expect(t, get(t, c, "a", "cm-1"), "7")
		expect(t, names(t, c, client.MatchingLabels{"number": "7"}), "a/cm-1 a/new")
		expect(t, names(t, c, client.MatchingLabels{"number": "1"}), "b/cm-1 c/cm-1")
		if len(c.allInformers()) != 1 {
			t.Error("a write started an informer")
		}

		uncached := &client.GetOptions{DisableReadYourWritesConsistency: true}
		expect(t, get(t, c, "a", "new", uncached), "not found")
		expect(t, get(t, c, "a", "cm-1", uncached), "1")
		expect(t, names(t, c, client.MatchingLabels{"number": "1"}, &client.ListOptions{DisableReadYourWritesConsistency: true}), "a/cm-1 b/cm-1 c/cm-1")

		cm := s.put(configMap("a", "cm-2", "number", "2"))
		s.Delete("configmaps", "a", "cm-2")
		c.Deleted(ctx, cm)
		expect(t, get(t, c, "a", "cm-2"), "not found")
		catchUp()
		expect(t, get(t, c, "a", "new"), "7")
		expect(t, get(t, c, "a", "cm-1", uncached), "7")
		expect(t, get(t, c, "a", "cm-2"), "not found")
	})
}

// The caller may modify the object after the write.
func TestWritesAreCopied(t *testing.T) {
	withBrokenWatch(t, Options{}, func(t *testing.T, s *server, c *informerCache, _ func()) {
		cm := s.put(configMap("a", "new", "number", "7")).(*corev1.ConfigMap)
		c.Wrote(t.Context(), cm)
		cm.Labels["number"] = "8"
		expect(t, get(t, c, "a", "new"), "7")
	})
}

// A later write by another client supersedes the own write when the watch delivers it.
func TestLaterWritesOfOthers(t *testing.T) {
	withBrokenWatch(t, Options{}, func(t *testing.T, s *server, c *informerCache, catchUp func()) {
		ctx := t.Context()
		own := s.put(configMap("a", "cm-1", "number", "7"))
		s.put(configMap("a", "cm-1", "number", "8"))
		c.Wrote(ctx, own)
		expect(t, get(t, c, "a", "cm-1"), "7")
		catchUp()
		expect(t, get(t, c, "a", "cm-1"), "8")
		c.Wrote(ctx, own) // a late response
		expect(t, get(t, c, "a", "cm-1"), "8")
	})
}

func TestWritesOutsideTheSelector(t *testing.T) {
	opts := Options{
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"number": "1"}),
		DefaultFieldSelector: fields.OneTermNotEqualSelector("metadata.name", "hidden"),
	}
	withBrokenWatch(t, opts, func(t *testing.T, s *server, c *informerCache, catchUp func()) {
		ctx := t.Context()
		c.Wrote(ctx, s.put(configMap("a", "cm-2", "number", "1")))
		c.Wrote(ctx, s.put(configMap("a", "cm-1", "number", "2")))
		c.Wrote(ctx, s.put(configMap("a", "other", "number", "2")))
		c.Wrote(ctx, s.put(configMap("a", "hidden", "number", "1")))
		want := "a/cm-2 b/cm-1 c/cm-1"
		expect(t, names(t, c), want)
		catchUp()
		expect(t, names(t, c), want)
	})
}

func TestWritesInOtherNamespaces(t *testing.T) {
	withBrokenWatch(t, Options{DefaultNamespaces: map[string]Config{"a": {}}}, func(t *testing.T, s *server, c *informerCache, _ func()) {
		c.Wrote(t.Context(), s.put(configMap("b", "new")))
		c.Deleted(t.Context(), configMap("b", "new"))
		expect(t, names(t, c), "a/cm-0 a/cm-1 a/cm-2 a/cm-3")
	})
}

// An object may be deleted and created again before the watch delivers either.
func TestDeletedAndCreatedAgain(t *testing.T) {
	withBrokenWatch(t, Options{}, func(t *testing.T, s *server, c *informerCache, catchUp func()) {
		ctx := t.Context()
		cm := configMap("a", "cm-1", "number", "deleting")
		cm.DeletionTimestamp, cm.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x.io/y"}
		response := s.put(cm)
		c.Wrote(ctx, response)
		expect(t, get(t, c, "a", "cm-1"), "deleting")
		s.Delete("configmaps", "a", "cm-1")
		c.Deleted(ctx, response)
		expect(t, get(t, c, "a", "cm-1"), "not found")
		c.Wrote(ctx, response) // a late response
		expect(t, get(t, c, "a", "cm-1"), "not found")
		c.Wrote(ctx, s.put(configMap("a", "cm-1", "number", "again")))
		expect(t, get(t, c, "a", "cm-1"), "again")
		catchUp()
		expect(t, get(t, c, "a", "cm-1"), "again")
	})
}

// A write in one representation is seen in all of them. Those that it does not determine take a
// live read.
func TestWritesInOtherRepresentations(t *testing.T) {
	withBrokenWatch(t, Options{}, func(t *testing.T, s *server, c *informerCache, _ func()) {
		ctx := t.Context()
		gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
		u.SetGroupVersionKind(gvk)
		m.SetGroupVersionKind(gvk)
		for _, obj := range []client.Object{u, m} {
			if err := c.Get(ctx, key("a", "cm-1"), obj); err != nil {
				t.Fatal(err)
			}
		}
		s.breakWatches("")
		synctest.Wait()
		see := func(want string) {
			t.Helper()
			expect(t, get(t, c, "a", "cm-1"), want)
			for _, obj := range []client.Object{u, m} {
				if err := c.Get(ctx, key("a", "cm-1"), obj); err != nil {
					t.Fatal(err)
				}
				expect(t, obj.GetLabels()["number"], want)
			}
		}
		c.Wrote(ctx, s.put(configMap("a", "cm-1", "number", "typed")))
		see("typed")
		response := s.put(configMap("a", "cm-1", "number", "unstructured"))
		u.SetLabels(response.GetLabels())
		u.SetResourceVersion(response.GetResourceVersion())
		c.Wrote(ctx, u)
		see("unstructured")
		response = s.put(configMap("a", "cm-1", "number", "metadata"))
		m.SetLabels(response.GetLabels())
		m.SetResourceVersion(response.GetResourceVersion())
		c.Wrote(ctx, m)
		see("metadata")
		expectSeries(t, "live_reads_total", "metadata ConfigMap 0", "typed ConfigMap 1", "unstructured ConfigMap 2")
	})
}

// A write in one API version invalidates the objects of the others, as it does not determine them.
func TestWritesInOtherVersions(t *testing.T) {
	withBrokenWatch(t, Options{}, func(t *testing.T, s *server, c *informerCache, _ func()) {
		response := s.put(configMap("a", "cm-1", "number", "7"))
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind().WithVersion("v2"))
		u.SetNamespace("a")
		u.SetName("cm-1")
		u.SetLabels(map[string]string{"number": "converted"})
		u.SetResourceVersion(response.GetResourceVersion())
		c.Wrote(t.Context(), u)
		expect(t, get(t, c, "a", "cm-1"), "7")

		u.SetUID(response.GetUID())
		s.Delete("configmaps", "a", "cm-1")
		c.Deleted(t.Context(), u)
		expect(t, get(t, c, "a", "cm-1"), "not found")
	})
}
