package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
)

// sharedInformer returns the informer of a kind as code for client-go gets it: by an assertion.
func sharedInformer(t *testing.T, c Cache, obj client.Object) toolscache.SharedIndexInformer {
	t.Helper()
	i, err := c.GetInformer(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	return i.(toolscache.SharedIndexInformer)
}

// byNumber is an index of client-go by a label, and by its first digit if it has several.
func byNumber(obj any) ([]string, error) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no labels", obj)
	}
	number := o.GetLabels()["number"]
	if number == "" {
		return nil, nil
	}
	return []string{number, "digit " + number[:1]}, nil
}

// client-go's listers work on an informer of the cache.
func TestListersOfClientGo(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		configMaps := corelisters.NewConfigMapLister(sharedInformer(t, c, &corev1.ConfigMap{}).GetIndexer())
		nodes := corelisters.NewNodeLister(sharedInformer(t, c, &corev1.Node{}).GetIndexer())
		generic := toolscache.NewGenericLister(sharedInformer(t, c, &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		}).GetIndexer(), schema.GroupResource{Resource: "configmaps"})

		if cm, err := configMaps.ConfigMaps("b").Get("cm-2"); err != nil || cm.Namespace != "b" || cm.Labels["number"] != "2" {
			t.Errorf("got %v, error %v", cm, err)
		}
		if _, err := configMaps.ConfigMaps("b").Get("none"); !apierrors.IsNotFound(err) {
			t.Errorf("of what does not exist: %v", err)
		}
		if node, err := nodes.Get("node"); err != nil || node.Name != "node" {
			t.Errorf("got %v, error %v", node, err)
		}
		for _, test := range []struct {
			selector string
			all, ofA int
		}{{"", 12, 4}, {"number=1", 3, 1}, {"number notin (1,2)", 6, 2}, {"none", 0, 0}} {
			selector, err := labels.Parse(test.selector)
			if err != nil {
				t.Fatal(err)
			}
			all, _ := configMaps.List(selector)
			some, _ := configMaps.ConfigMaps("a").List(selector)
			objs, _ := generic.ByNamespace("a").List(selector)
			if len(all) != test.all || len(some) != test.ofA || len(objs) != test.ofA {
				t.Errorf("%q selects %d, %d of namespace a, %d as metadata", test.selector, len(all), len(some), len(objs))
			}
		}
		// The objects are shared, and a lister reads this process's own writes.
		first, _ := configMaps.ConfigMaps("a").Get("cm-1")
		if again, _ := configMaps.ConfigMaps("a").Get("cm-1"); again != first {
			t.Error("two reads returned different values")
		}
		own := configMap("a", "cm-1", "number", "7")
		own.ResourceVersion = "1000"
		c.Wrote(t.Context(), own)
		if cm, err := configMaps.ConfigMaps("a").Get("cm-1"); err != nil || cm.Labels["number"] != "7" {
			t.Errorf("got %v, error %v", cm, err)
		}
	})
}

// sortedTexts returns the texts of a result in order.
func sortedTexts(values any) string {
	var all []string
	v := reflect.ValueOf(values)
	for n := range v.Len() {
		value := v.Index(n).Interface()
		if o, ok := value.(metav1.Object); ok {
			value = o.GetNamespace() + "/" + o.GetName() + " at " + o.GetResourceVersion()
		}
		all = append(all, fmt.Sprint(value))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// answers are the results of all methods of an indexer.
func answers(x toolscache.Indexer) (all []string) {
	add := func(question string, values any, err error) {
		all = append(all, fmt.Sprintf("%s: %s, error %v", question, sortedTexts(values), err != nil))
	}
	add("List", x.List(), nil)
	add("ListKeys", x.ListKeys(), nil)
	add("GetIndexers", reflect.ValueOf(x.GetIndexers()).MapKeys(), nil)
	for _, key := range []string{"a/cm-1", "a/none", "cm-1", "", "a/b/c", "none/cm-1"} {
		item, exists, err := x.GetByKey(key)
		if exists {
			add("GetByKey "+key, []any{item}, err)
		} else if item != nil || err != nil {
			add("GetByKey "+key+" without an object", []any{item}, err)
		}
	}
	objects := []any{
		configMap("a", "cm-1", "number", "3"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}},
		&metav1.ObjectMeta{Namespace: "a"}, toolscache.DeletedFinalStateUnknown{Key: "b/cm-2"}, "text", nil,
	}
	for n, obj := range objects {
		if item, exists, err := x.Get(obj); exists {
			add(fmt.Sprint("Get ", n), []any{item}, err)
		} else {
			add(fmt.Sprint("Get nothing ", n), []any{item}, err)
		}
		for _, index := range []string{"namespace", "number", "none"} {
			if _, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				continue
			}
			values, err := x.Index(index, obj)
			add(fmt.Sprint("Index ", index, n), values, err)
		}
	}
	for _, index := range []string{"namespace", "number", "none"} {
		add("ListIndexFuncValues "+index, x.ListIndexFuncValues(index), nil)
		for _, value := range []string{"", "a", "b", "1", "digit 1", "12", "none"} {
			values, err := x.ByIndex(index, value)
			add("ByIndex "+index+value, values, err)
			keys, err := x.IndexKeys(index, value)
			add("IndexKeys "+index+value, keys, err)
		}
	}
	return all
}

// The indexer of an informer answers as client-go's, after random writes.
func TestIndexerAsClientGo(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		x := sharedInformer(t, c, &corev1.ConfigMap{}).GetIndexer()
		if err := x.AddIndexers(toolscache.Indexers{"number": byNumber}); err != nil {
			t.Fatal(err)
		}
		node := sharedInformer(t, c, &corev1.Node{}).GetIndexer()
		r := rand.New(rand.NewPCG(1, 2))
		for range 40 {
			for range r.IntN(5) {
				namespace, name := []string{"a", "b", "new"}[r.IntN(3)], fmt.Sprint("cm-", r.IntN(5))
				switch r.IntN(4) {
				case 0:
					s.Delete("configmaps", namespace, name)
				case 1:
					s.put(configMap(namespace, name))
				default:
					s.put(configMap(namespace, name, "number", fmt.Sprint(r.IntN(13))))
				}
			}
			synctest.Wait()
			want := toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc,
				toolscache.Indexers{"namespace": toolscache.MetaNamespaceIndexFunc, "number": byNumber})
			for _, obj := range s.Objects("configmaps") {
				if err := want.Add(obj); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := answers(x), answers(want); !slices.Equal(got, want) {
				for n := range min(len(got), len(want)) {
					if got[n] != want[n] {
						t.Errorf("got  %s\nwant %s", got[n], want[n])
					}
				}
				t.FailNow()
			}
		}
		want := toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc,
			toolscache.Indexers{"namespace": toolscache.MetaNamespaceIndexFunc})
		for _, obj := range s.Objects("nodes") {
			_ = want.Add(obj)
		}
		if got, want := answers(node), answers(want); !slices.Equal(got, want) {
			t.Errorf("nodes\n got %q\nwant %q", got, want)
		}
	})
}

// Nobody but the watch changes the store, and no index replaces another one.
func TestIndexerIsReadOnly(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		x := sharedInformer(t, c, &corev1.ConfigMap{}).GetIndexer()
		before := answers(x)
		cm := configMap("a", "more")
		for name, err := range map[string]error{
			"Add": x.Add(cm), "Update": x.Update(cm), "Delete": x.Delete(configMap("a", "cm-1")), "Replace": x.Replace(nil, "1"),
		} {
			if !errors.Is(err, errReadOnly) {
				t.Errorf("%s: error %v", name, err)
			}
		}
		x.Bookmark("1")
		if err := x.Resync(); err != nil {
			t.Error(err)
		}
		clear(x.GetIndexers())
		if got := answers(x); !slices.Equal(got, before) {
			t.Errorf("got %q, want %q", got, before)
		}
		if err := c.IndexField(t.Context(), &corev1.ConfigMap{}, "field", func(client.Object) []string { return nil }); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"field", "namespace"} {
			if err := x.AddIndexers(toolscache.Indexers{"another": byNumber, name: byNumber}); err == nil {
				t.Errorf("a second index by %q was added", name)
			}
		}
		if _, err := x.ByIndex("another", ""); err == nil {
			t.Error("an index was added together with one that exists")
		}
	})
}

// What client-go's informers offer beside the store.
func TestSharedInformer(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		i := sharedInformer(t, c, &corev1.ConfigMap{})
		if v := i.LastSyncResourceVersion(); v != "" {
			t.Errorf("the resource version before the first list is %q", v)
		}
		var reported error
		if err := i.SetWatchErrorHandler(func(_ *toolscache.Reflector, err error) { reported = err }); err != nil {
			t.Error(err)
		}
		if err := i.SetTransform(func(obj any) (any, error) {
			obj.(*corev1.ConfigMap).Data = map[string]string{"transformed": "yes"}
			return obj, nil
		}); err != nil {
			t.Error(err)
		}
		refused := false
		s.Respond = func(fakeapi.Request) (*http.Response, error) {
			if refused {
				return nil, nil
			}
			refused = true
			return nil, errors.New("refused")
		}
		startCache(t, c)
		var cm corev1.ConfigMap
		if err := c.Get(t.Context(), key("a", "cm-1"), &cm); err != nil || cm.Data["transformed"] != "yes" {
			t.Errorf("got %v, error %v", cm.Data, err)
		}
		if reported == nil {
			t.Error("the watch error handler was not called")
		}
		if i.SetWatchErrorHandler(nil) == nil || i.SetTransform(nil) == nil {
			t.Error("an informer that has started was changed")
		}
		i.RunWithContext(t.Context()) // returns, as the cache runs it
		i.Run(nil)
		controller := i.GetController()
		controller.RunWithContext(t.Context())
		controller.Run(nil)
		if !controller.HasSynced() || !toolscache.IsDone(controller.HasSyncedChecker()) ||
			controller.LastSyncResourceVersion() != i.LastSyncResourceVersion() {
			t.Error("the controller does not say what the informer does")
		}
		written := s.put(configMap("a", "more"))
		synctest.Wait()
		if v := i.LastSyncResourceVersion(); v != written.GetResourceVersion() {
			t.Errorf("the resource version is %s, want %s", v, written.GetResourceVersion())
		}
		if i.GetStore().LastStoreSyncResourceVersion() != i.LastSyncResourceVersion() {
			t.Error("the store has another resource version")
		}
		if err := c.RemoveInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
			t.Fatal(err)
		}
		if err := i.AddIndexers(toolscache.Indexers{"number": byNumber}); err == nil {
			t.Error("an index was added to an informer that has stopped")
		}
	})
}

// An informer that its user runs before the cache is not started again.
func TestRunOfAnInformer(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		i := sharedInformer(t, c, &corev1.ConfigMap{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { i.RunWithContext(ctx); close(ended) }()
		synctest.Wait()
		if n := len(i.GetStore().List()); !i.HasSynced() || n != 12 {
			t.Errorf("synced: %v, %d objects", i.HasSynced(), n)
		}
		startCache(t, c)
		if names(t, c) == "" {
			t.Error("the cache reads nothing")
		}
		cancel()
		<-ended
		if !i.IsStopped() {
			t.Error("the informer has not stopped")
		}
	})
}
