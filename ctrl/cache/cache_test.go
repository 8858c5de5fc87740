package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newTestCache returns a cache of a server.
func newTestCache(t *testing.T, s *server, opts Options) *informerCache {
	t.Helper()
	opts.HTTPClient = &http.Client{Transport: s}
	opts.Mapper = mapper()
	c, err := newInformerCache(&rest.Config{Host: "http://server"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startCache starts a cache until the test ends.
func startCache(t *testing.T, c Cache) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Start(ctx) }()
	synctest.Wait()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// withServer runs a test in virtual time on a server with some objects.
func withServer(t *testing.T, f func(*testing.T, *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for _, ns := range []string{"a", "b", "c"} {
			for i := range 4 {
				s.put(configMap(ns, fmt.Sprint("cm-", i), "number", fmt.Sprint(i)))
			}
		}
		s.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}})
		f(t, s)
	})
}

func configMap(namespace, name string, kv ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for i := 0; i < len(kv); i += 2 {
		metav1.SetMetaDataLabel(&cm.ObjectMeta, kv[i], kv[i+1])
	}
	return cm
}

func key(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// names lists config maps and returns their names.
func names(t *testing.T, c client.Reader, opts ...client.ListOption) string {
	t.Helper()
	var list corev1.ConfigMapList
	if err := c.List(t.Context(), &list, opts...); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		if item.Kind != "ConfigMap" || item.APIVersion != "v1" {
			t.Errorf("%s is a %s", item.Name, item.GroupVersionKind())
		}
		names = append(names, item.Namespace+"/"+item.Name)
	}
	return strings.Join(names, " ")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Get and List return copies of the cached objects, by namespace and labels.
func TestReads(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		var cm corev1.ConfigMap
		if err := c.Get(t.Context(), key("b", "cm-2"), &cm); err != nil {
			t.Fatal(err)
		}
		expect(t, cm.Kind+" "+cm.Namespace+"/"+cm.Name+" "+cm.Labels["number"], "ConfigMap b/cm-2 2")
		cm.Labels["number"] = "changed"
		if err := c.Get(t.Context(), key("b", "cm-2"), &cm); err != nil || cm.Labels["number"] != "2" {
			t.Errorf("a reader changed the cache: %v, %v", cm.Labels, err)
		}
		err := c.Get(t.Context(), key("b", "none"), &cm)
		if !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
		expect(t, err.Error(), `configmaps "none" not found`)

		expect(t, names(t, c), "a/cm-0 a/cm-1 a/cm-2 a/cm-3 b/cm-0 b/cm-1 b/cm-2 b/cm-3 c/cm-0 c/cm-1 c/cm-2 c/cm-3")
		expect(t, names(t, c, client.InNamespace("b")), "b/cm-0 b/cm-1 b/cm-2 b/cm-3")
		expect(t, names(t, c, client.MatchingLabels{"number": "3"}), "a/cm-3 b/cm-3 c/cm-3")
		expect(t, names(t, c, client.InNamespace("c"), client.MatchingLabels{"number": "3"}), "c/cm-3")
		expect(t, names(t, c, client.InNamespace("none")), "")

		var node corev1.Node
		if err := c.Get(t.Context(), key("ignored", "node"), &node); err != nil {
			t.Error(err)
		}
	})
}

// A read that waits for an informer is not ended by its removal.
func TestReadOfRemovedInformer(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		s.setMissing(true)
		read := make(chan error)
		go func() { read <- c.Get(t.Context(), key("b", "cm-2"), &corev1.ConfigMap{}) }()
		synctest.Wait()
		for range 3 {
			if err := c.RemoveInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		s.setMissing(false)
		if err := <-read; err != nil {
			t.Error(err)
		}
		// An informer that its user has ended is not replaced.
		i, err := c.GetInformer(t.Context(), &corev1.Node{}, BlockUntilSynced(false))
		if err != nil {
			t.Fatal(err)
		}
		s.setMissing(true)
		i.(*informer).cancel()
		synctest.Wait()
		if err := c.Get(t.Context(), key("", "none"), &corev1.Node{}); !apierrors.IsTimeout(err) && !apierrors.IsNotFound(err) {
			t.Errorf("error %v", err)
		}
	})
}

// A read that waits for an informer finds the indexes and settings of the one that is removed, also if
// another read has replaced that before.
func TestIndexesOfRemovedInformer(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		s.setMissing(true)
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}, BlockUntilSynced(false))
		if err != nil {
			t.Fatal(err)
		}
		failures := atomic.Int32{}
		if err := errors.Join(
			i.(*informer).SetTransform(func(obj any) (any, error) {
				obj.(*corev1.ConfigMap).Data = map[string]string{"transformed": "yes"}
				return obj, nil
			}),
			i.(*informer).SetWatchErrorHandler(func(*toolscache.Reflector, error) { failures.Add(1) }),
			i.AddIndexers(toolscache.Indexers{"number": func(obj any) ([]string, error) {
				return []string{obj.(*corev1.ConfigMap).Labels["number"]}, nil
			}}),
			c.IndexField(t.Context(), &corev1.ConfigMap{}, "field", func(obj client.Object) []string {
				return []string{obj.GetName()}
			}),
		); err != nil {
			t.Fatal(err)
		}
		startCache(t, c)
		var list corev1.ConfigMapList
		read := make(chan error)
		remove := func() {
			synctest.Wait()
			if err := c.RemoveInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
				t.Fatal(err)
			}
		}
		go func() { read <- c.List(t.Context(), &list, client.MatchingFields{"field": "cm-1", "number": "1"}) }()
		remove()
		remove()
		synctest.Wait()
		failures.Store(0)
		time.Sleep(time.Minute)
		if failures.Load() == 0 {
			t.Error("the handler of errors is lost")
		}
		s.setMissing(false)
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 || list.Items[0].Data["transformed"] != "yes" {
			t.Errorf("got %+v", list.Items)
		}
		// The indexes are there for client-go's interfaces too.
		i, err = c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		if objs, err := i.(toolscache.SharedIndexInformer).GetIndexer().ByIndex("number", "1"); err != nil || len(objs) == 0 {
			t.Errorf("%d objects, error %v", len(objs), err)
		}
		// An informer that was created meanwhile has the indexes too.
		other, err := c.newInformer(t.Context(), i.(*informer).informerKey)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := other.inheritIndexes(i.(*informer)); err != nil || !other.hasIndex("field") || !other.hasIndex("number") {
				t.Errorf("error %v", err)
			}
		}
	})
}

// List respects a limit, rejects unsupported options, and shares objects on request.
func TestListOptions(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		var list corev1.ConfigMapList
		// The continue token is always set, and is rejected by the next List.
		for limit, want := range map[int64]int{2: 2, 12: 12, 0: 12} {
			if err := c.List(t.Context(), &list, client.Limit(limit)); err != nil || len(list.Items) != want || list.Continue != "continue-not-supported" {
				t.Errorf("limit %d: got %d items, %q, %v", limit, len(list.Items), list.Continue, err)
			}
		}
		if err := c.List(t.Context(), &list, client.Continue(list.Continue)); err == nil || err.Error() != "continue list option is not supported by the cache" {
			t.Errorf("got %v for the next page", err)
		}
		for _, opt := range []client.ListOption{
			client.Continue("x"),
			client.MatchingFields{"data.number": "1"},
			client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("data.number", "1")},
		} {
			if err := c.List(t.Context(), &list, opt); err == nil {
				t.Errorf("no error for %v", opt)
			}
		}
		var one, other corev1.ConfigMapList
		if err := c.List(t.Context(), &one, client.UnsafeDisableDeepCopy); err != nil {
			t.Fatal(err)
		}
		if err := c.List(t.Context(), &other, client.UnsafeDisableDeepCopy); err != nil {
			t.Fatal(err)
		}
		one.Items[0].Labels["number"] = "shared"
		expect(t, other.Items[0].Labels["number"], "shared")
	})
}

// Each representation of a kind is read from a store of its own.
func TestRepresentations(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		if err := c.Get(t.Context(), key("a", "cm-1"), u); err != nil {
			t.Fatal(err)
		}
		expect(t, u.GetLabels()["number"]+u.GetKind(), "1ConfigMap")
		us := &unstructured.UnstructuredList{}
		us.SetGroupVersionKind(gvk.GroupVersion().WithKind("ConfigMapList"))
		if err := c.List(t.Context(), us, client.InNamespace("a")); err != nil || len(us.Items) != 4 {
			t.Errorf("%d items, %v", len(us.Items), err)
		}
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(gvk)
		if err := c.Get(t.Context(), key("a", "cm-1"), m); err != nil {
			t.Fatal(err)
		}
		expect(t, m.Labels["number"]+m.Kind, "1ConfigMap")
		ms := &metav1.PartialObjectMetadataList{}
		ms.SetGroupVersionKind(gvk.GroupVersion().WithKind("ConfigMapList"))
		if err := c.List(t.Context(), ms); err != nil || len(ms.Items) != 12 {
			t.Errorf("%d items, %v", len(ms.Items), err)
		}
		s.put(configMap("a", "new"))
		synctest.Wait()
		for _, obj := range []client.Object{u, m, &corev1.ConfigMap{}} {
			if err := c.Get(t.Context(), key("a", "new"), obj); err != nil {
				t.Errorf("%T: %v", obj, err)
			}
		}
	})
}

func TestFieldIndexes(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		byNumber := func(obj client.Object) []string { return []string{obj.GetLabels()["number"], "any"} }
		if err := c.IndexField(t.Context(), &corev1.ConfigMap{}, "number", byNumber); err != nil {
			t.Fatal(err)
		}
		startCache(t, c)
		if err := c.IndexField(t.Context(), &corev1.ConfigMap{}, "number", byNumber); err == nil {
			t.Error("an index was added twice")
		}
		if err := c.IndexField(t.Context(), &corev1.ConfigMap{}, "name", func(obj client.Object) []string { return []string{obj.GetName()} }); err != nil {
			t.Fatal(err)
		}
		expect(t, names(t, c, client.MatchingFields{"number": "2"}), "a/cm-2 b/cm-2 c/cm-2")
		expect(t, names(t, c, client.MatchingFields{"number": "2"}, client.InNamespace("b")), "b/cm-2")
		expect(t, names(t, c, client.MatchingFields{"number": "any", "name": "cm-1"}), "a/cm-1 b/cm-1 c/cm-1")
		expect(t, names(t, c, client.MatchingFields{"number": "2", "name": "cm-1"}), "")
		s.put(configMap("b", "cm-2", "number", "9"))
		synctest.Wait()
		expect(t, names(t, c, client.MatchingFields{"number": "2"}), "a/cm-2 c/cm-2")
	})
}

// Before Start, reads fail and informers do not sync.
func TestBeforeStart(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		var notStarted *ErrCacheNotStarted
		if err := c.Get(t.Context(), key("a", "cm-1"), &corev1.ConfigMap{}); !errors.As(err, &notStarted) {
			t.Errorf("got %v", err)
		}
		if err := c.List(t.Context(), &corev1.ConfigMapList{}); !errors.As(err, &notStarted) {
			t.Errorf("got %v", err)
		}
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil || i.HasSynced() || i.IsStopped() {
			t.Errorf("got %v, %v", i, err)
		}
		expired, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if c.WaitForCacheSync(expired) {
			t.Error("a cache that is not started has synced")
		}
		startCache(t, c)
		if !c.WaitForCacheSync(t.Context()) || !i.HasSynced() {
			t.Error("the cache has not synced")
		}
		if err := c.Start(t.Context()); err == nil || err.Error() != "informer already started" {
			t.Errorf("the cache was started twice: %v", err)
		}
	})
}

func TestStop(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Start(ctx) }()
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !i.IsStopped() {
			t.Error("the informer has not stopped")
		}
		if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err == nil {
			t.Error("a handler was added to a stopped informer")
		}
		if _, err := c.GetInformer(t.Context(), &corev1.Node{}); !errors.Is(err, context.Canceled) {
			t.Errorf("GetInformer of a stopped cache returned %v", err)
		}
	})
}

func TestUnknownKinds(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		if err := c.Get(t.Context(), key("a", "x"), &corev1.Service{}); !meta.IsNoMatchError(err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestReaderFailOnMissingInformer(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{ReaderFailOnMissingInformer: true})
		startCache(t, c)
		var notCached *ErrResourceNotCached
		if err := c.Get(t.Context(), key("a", "cm-1"), &corev1.ConfigMap{}); !errors.As(err, &notCached) || notCached.GVK.Kind != "ConfigMap" {
			t.Errorf("got %v", err)
		}
		if err := c.List(t.Context(), &corev1.ConfigMapList{}); !errors.As(err, &notCached) {
			t.Errorf("got %v", err)
		}
		if _, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), key("a", "cm-1"), &corev1.ConfigMap{}); err != nil {
			t.Error(err)
		}
	})
}

func TestRemoveInformer(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.RemoveInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !i.IsStopped() || len(c.allInformers()) != 0 {
			t.Error("the informer is still there")
		}
		expect(t, names(t, c, client.InNamespace("a")), "a/cm-0 a/cm-1 a/cm-2 a/cm-3")
	})
}

// The cache retries a kind that the server does not have, until it has it. Waiting for it ends with
// the context.
func TestMissingKind(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		s.setMissing(true)
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.GetInformer(ctx, &corev1.ConfigMap{}); !apierrors.IsTimeout(err) {
			t.Errorf("got %v", err)
		}
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}, BlockUntilSynced(false))
		if err != nil || i.HasSynced() {
			t.Errorf("got %v, %v", i, err)
		}
		s.setMissing(false)
		<-i.HasSyncedChecker().Done()
		expect(t, names(t, c, client.MatchingLabels{"number": "1"}), "a/cm-1 b/cm-1 c/cm-1")
	})
}

// The cache recovers from broken connections and invalid events.
func TestConnectionFaults(t *testing.T) {
	for name, rest := range map[string]string{
		"between events": "",
		"in an event":    `{"type":"MODIFIED","object":{"kind":"Conf`,
		"invalid JSON":   "}}}}\n",
		"invalid object": `{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","data":7}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			withServer(t, func(t *testing.T, s *server) {
				var faults []error
				c := newTestCache(t, s, Options{DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
					faults = append(faults, err)
				}})
				startCache(t, c)
				names(t, c)
				s.breakWatches(rest)
				s.put(configMap("a", "missed", "number", "1"))
				s.Delete("configmaps", "b", "cm-1")
				time.Sleep(time.Minute)
				expect(t, names(t, c, client.MatchingLabels{"number": "1"}), "a/cm-1 a/missed c/cm-1")
				if len(faults) == 0 {
					t.Fatal("the error handler was not called")
				}
				if short := new(toolscache.VeryShortWatchError); rest == "" && !errors.As(faults[0], &short) {
					t.Errorf("the first error is %v", faults[0])
				}
			})
		})
	}
}

// The namespaces and selectors of the options determine requests and reads.
func TestNamespaces(t *testing.T) {
	onlyOne := Config{LabelSelector: labels.SelectorFromSet(labels.Set{"number": "1"})}
	tests := []struct {
		name     string
		opts     Options
		want     string
		requests []string
	}{
		{"default", Options{DefaultNamespaces: map[string]Config{"a": {}, "b": onlyOne}},
			"a/cm-0 a/cm-1 a/cm-2 a/cm-3 b/cm-1",
			[]string{`configmaps ns="a" labels="" fields=""`, `configmaps ns="b" labels="number=1" fields=""`}},
		{"one and all others", Options{DefaultNamespaces: map[string]Config{"a": {}, AllNamespaces: onlyOne}},
			"a/cm-0 a/cm-1 a/cm-2 a/cm-3 b/cm-1 c/cm-1",
			[]string{`configmaps ns="" labels="number=1" fields="metadata.namespace!=a"`, `configmaps ns="a" labels="" fields=""`}},
		{"by object", Options{
			DefaultNamespaces: map[string]Config{"a": {}},
			ByObject:          map[client.Object]ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]Config{"c": {}}, Label: onlyOne.LabelSelector}},
		}, "c/cm-1", []string{`configmaps ns="c" labels="number=1" fields=""`}},
		{"all by object", Options{
			DefaultNamespaces:    map[string]Config{"a": {}},
			DefaultLabelSelector: onlyOne.LabelSelector,
			ByObject:             map[client.Object]ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]Config{}}},
		}, "a/cm-1 b/cm-1 c/cm-1", []string{`configmaps ns="" labels="number=1" fields=""`}},
		{"by a field", Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.namespace", "b")},
			"b/cm-0 b/cm-1 b/cm-2 b/cm-3",
			[]string{`configmaps ns="b" labels="" fields="metadata.namespace=b"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			withServer(t, func(t *testing.T, s *server) {
				c := newTestCache(t, s, test.opts)
				startCache(t, c)
				expect(t, names(t, c), test.want)
				if got := slices.Sorted(slices.Values(s.selections())); !slices.Equal(got, test.requests) {
					t.Errorf("requests %q, want %q", got, test.requests)
				}
				if len(test.opts.DefaultNamespaces) == 0 || test.opts.DefaultNamespaces[AllNamespaces].LabelSelector != nil {
					return
				}
				if test.opts.ByObject == nil {
					if err := c.Get(t.Context(), key("c", "cm-1"), &corev1.ConfigMap{}); err == nil || apierrors.IsNotFound(err) {
						t.Errorf("got %v", err)
					}
					if err := c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("c")); err == nil {
						t.Error("a namespace was listed that is not cached")
					}
				}
				if err := c.Get(t.Context(), key("", "node"), &corev1.Node{}); test.opts.DefaultLabelSelector == nil && err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Objects are transformed before they are stored; failed transforms omit them.
func TestTransform(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{
			DefaultTransform: func(obj any) (any, error) {
				cm := obj.(*corev1.ConfigMap)
				switch cm.Name {
				case "cm-1":
					return nil, errors.New("no")
				case "cm-2":
					return "nonsense", nil
				}
				cm.Data = map[string]string{"transformed": "yes"}
				return cm, nil
			},
		})
		startCache(t, c)
		var list corev1.ConfigMapList
		if err := c.List(t.Context(), &list, client.InNamespace("a")); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 2 || list.Items[0].Data["transformed"] != "yes" {
			t.Errorf("got %v", list.Items)
		}
		c.Wrote(t.Context(), s.put(configMap("a", "new")))
		var cm corev1.ConfigMap
		if err := c.Get(t.Context(), key("a", "new"), &cm); err != nil || cm.Data["transformed"] != "yes" {
			t.Errorf("got %v, %v", cm.Data, err)
		}
	})
}

func TestStripManagedFields(t *testing.T) {
	cm := configMap("a", "b")
	cm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	got, err := TransformStripManagedFields()(cm)
	if err != nil || got.(*corev1.ConfigMap).ManagedFields != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := TransformStripManagedFields()("no object"); got != "no object" || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestInvalidByObject(t *testing.T) {
	type unknown struct{ corev1.ConfigMap }
	if _, err := New(&rest.Config{}, Options{Mapper: mapper(), ByObject: map[client.Object]ByObject{&unknown{}: {}}}); err == nil {
		t.Error("no error")
	}
	twice := map[client.Object]ByObject{&corev1.ConfigMap{}: {}, &corev1.ConfigMap{}: {}}
	if _, err := New(&rest.Config{}, Options{Mapper: mapper(), ByObject: twice}); err == nil {
		t.Error("no error")
	}
	namespaced := map[client.Object]ByObject{&corev1.Node{}: {Namespaces: map[string]Config{"a": {}}}}
	_, err := New(&rest.Config{}, Options{Mapper: mapper(), ByObject: namespaced})
	if err == nil || !strings.Contains(err.Error(), "Node") {
		t.Errorf("namespaces of a cluster-scoped kind: %v", err)
	}
	// While the kind is not installed, its scope is not known.
	late := meta.NewDefaultRESTMapper(nil)
	c, err := New(&rest.Config{}, Options{Mapper: late, ByObject: namespaced})
	if err != nil {
		t.Fatal(err)
	}
	late.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	if _, err := c.GetInformer(t.Context(), &corev1.Node{}); !errors.Is(err, errNamespacesOfClusterScoped) {
		t.Errorf("when it is: %v", err)
	}
}

// The error of a read into another type names both as the caller has them: pointers.
func TestTypeMismatch(t *testing.T) {
	s := store.New(store.ShareOnDemand)
	s.Scope(AllNamespaces).Changed(configMap("a", "x"))
	obj, _ := s.Get(key("a", "x"), false)
	for _, shared := range []bool{false, true} {
		err := (&informer{}).assign(obj, reflect.ValueOf(&corev1.Secret{}).Elem(), shared)
		expect(t, fmt.Sprint(err), "cache had type *v1.ConfigMap, but *v1.Secret was asked for")
	}
}
