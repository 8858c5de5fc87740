package cache

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
)

// mutations collects mutations.
type mutations struct {
	mu    sync.Mutex
	found []string
}

func (m *mutations) on(found Mutation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error = found
	m.found = append(m.found, err.Error())
}

// expect compares the mutations found since the last call.
func (m *mutations) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.found, want) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(m.found, "\n"), strings.Join(want, "\n"))
	}
	m.found = nil
}

// startDetecting returns a started cache with a mutation detector, and a function that stops it.
func startDetecting(t *testing.T, s *server, opts Options) (c Cache, stop func()) {
	t.Helper()
	opts.HTTPClient, opts.Mapper = &http.Client{Transport: s}, mapper()
	c, err := New(&rest.Config{Host: "http://server"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Start(ctx) }()
	synctest.Wait()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return c, stop
}

const shared = " is shared and must not be modified, but was: "

// A modification by a handler is detected when it returns; a later one, when the object changes
// again.
func TestMutatingHandler(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		m := &mutations{}
		c, stop := startDetecting(t, s, Options{OnMutation: m.on})
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		var kept *corev1.ConfigMap
		if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if cm := obj.(*corev1.ConfigMap); cm.Namespace == "a" && cm.Name == "cm-1" {
					cm.Labels["number"] = "changed"
					cm.Data = map[string]string{"password": "secret"}
				}
			},
			UpdateFunc: func(_, obj any) { kept = obj.(*corev1.ConfigMap) },
			DeleteFunc: func(obj any) { obj.(*corev1.ConfigMap).ResourceVersion = "" },
		}); err != nil {
			t.Fatal(err)
		}
		const by = ". It was passed to the handler cache.ResourceEventHandlerFuncs; the modification was detected "
		const returned = by + "after the handler cache.ResourceEventHandlerFuncs returned"
		m.expect(t, "ConfigMap a/cm-1"+shared+"data, metadata.labels.number"+returned)
		s.put(configMap("b", "cm-2", "number", "new"))
		m.expect(t)
		kept.Labels["number"] = "late"
		s.put(configMap("b", "cm-2", "number", "newer"))
		m.expect(t, "ConfigMap b/cm-2"+shared+"metadata.labels.number"+by+"before it was passed to the handler cache.ResourceEventHandlerFuncs again")
		s.Delete("configmaps", "a", "cm-3")
		m.expect(t, "ConfigMap a/cm-3"+shared+"metadata.resourceVersion"+returned)
		kept.ManagedFields = []metav1.ManagedFieldsEntry{{}}
		stop()
		m.expect(t, "ConfigMap b/cm-2"+shared+"metadata.managedFields"+by+"after the informer stopped")
	})
}

// A reader without a deep copy owns the struct, but must not modify the variables that the copy shares.
func TestMutatingReader(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		m := &mutations{}
		c, stop := startDetecting(t, s, Options{OnMutation: m.on})
		const by = ". It was passed to a reader without a deep copy; the modification was detected "
		var cm corev1.ConfigMap
		read := func(opts ...client.GetOption) {
			t.Helper()
			if err := c.Get(t.Context(), key("a", "cm-1"), &cm, opts...); err != nil {
				t.Fatal(err)
			}
		}
		read()
		cm.Labels["number"] = "own"
		read(client.UnsafeDisableDeepCopy)
		cm.ResourceVersion, cm.Annotations = "", map[string]string{"own": ""}
		read(client.UnsafeDisableDeepCopy)
		m.expect(t)
		cm.Labels["number"] = "changed"
		read()
		m.expect(t, "ConfigMap a/cm-1"+shared+"metadata.labels.number"+by+"when it was read again")

		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		if err := c.List(t.Context(), list, client.InNamespace("b"), client.UnsafeDisableDeepCopy); err != nil {
			t.Fatal(err)
		}
		list.Items[2].SetLabels(nil)
		if err := c.List(t.Context(), list, client.InNamespace("b"), client.UnsafeDisableDeepCopy); err != nil {
			t.Fatal(err)
		}
		m.expect(t, "ConfigMap b/cm-2"+shared+"metadata.labels"+by+"when it was listed again")
		list.Items[3].Object["data"] = 1 // not a JSON type
		stop()
		m.expect(t, "ConfigMap b/cm-3"+shared+"data"+by+"after the informer stopped")
	})
}

// The environment variable enables the mutation detector, which then panics.
func TestMutationVariable(t *testing.T) {
	t.Setenv(mutationVariable, "true")
	withServer(t, func(t *testing.T, s *server) {
		c, _ := startDetecting(t, s, Options{DefaultUnsafeDisableDeepCopy: new(true)})
		var cm corev1.ConfigMap
		read := func() (err error) {
			defer func() {
				if text, ok := recover().(string); ok {
					err = errors.New(text)
				}
			}()
			return c.Get(t.Context(), key("a", "cm-1"), &cm)
		}
		if err := read(); err != nil {
			t.Fatal(err)
		}
		cm.Labels["number"] = "changed"
		if err := read(); err == nil || !strings.Contains(err.Error(), "ConfigMap a/cm-1 is shared") {
			t.Errorf("got %v", err)
		}
		delete(cm.Labels, "number")
		cm.Labels["number"] = "changed" // as in the last copy
	})
}

// Without OnMutation there is no detector, and with it the number of copies is bounded.
func TestMutationDetectorIsBounded(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		if c := newTestCache(t, s, Options{}); c.opts.OnMutation != nil {
			t.Error("the mutation detector is enabled by default")
		}
		m := &mutations{}
		c, _ := startDetecting(t, s, Options{OnMutation: m.on, SyncPeriod: new(time.Hour)})
		r := &recorder{}
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.AddEventHandler(r); err != nil {
			t.Fatal(err)
		}
		for range 10 * maxSharedObjects {
			s.put(configMap("a", "cm-1"))
			synctest.Wait()
		}
		time.Sleep(24 * time.Hour)
		l := i.(*informer).mutations
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := len(l.byKey[key("a", "cm-1")]); n != maxSharedObjects {
			t.Errorf("%d shared objects are kept", n)
		}
	})
}

// Objects that were deleted are not kept, and their mutations are reported nevertheless.
func TestMutationDetectorForgets(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		m := &mutations{}
		c, stop := startDetecting(t, s, Options{OnMutation: m.on})
		read := func(name string, opts ...client.GetOption) *corev1.ConfigMap {
			t.Helper()
			cm := &corev1.ConfigMap{}
			if err := c.Get(t.Context(), key("a", name), cm, opts...); err != nil {
				t.Fatal(err)
			}
			return cm
		}
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		expectKept := func(want int) {
			t.Helper()
			synctest.Wait()
			d := i.(*informer).mutations
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.byKey) != want {
				t.Errorf("objects of %d keys are kept, want %d", len(d.byKey), want)
			}
		}
		read("cm-0")
		expectKept(0) // copies are not shared
		// What readers share is dropped, however the deletion is noticed.
		for range 2 {
			for range 3 {
				s.put(configMap("a", "new"))
				synctest.Wait()
				read("new", client.UnsafeDisableDeepCopy)
			}
			expectKept(1)
			s.Delete("configmaps", "a", "new")
			expectKept(0)
		}
		changed := read("cm-1", client.UnsafeDisableDeepCopy)
		read("cm-2", client.UnsafeDisableDeepCopy)
		changed.Labels["number"] = "changed"
		s.Break(io.EOF)
		s.Delete("configmaps", "a", "cm-1")
		s.Delete("configmaps", "a", "cm-2")
		s.Do(func() { s.Oldest = s.Version })
		time.Sleep(time.Minute)
		expectKept(0)
		m.expect(t)
		read("cm-0")
		const by = ". It was passed to a reader without a deep copy; the modification was detected "
		m.expect(t, "ConfigMap a/cm-1"+shared+"metadata.labels.number"+by+"when it was deleted")

		// What handlers share is dropped when they are finished with it.
		slow := make(chan struct{})
		for _, handler := range []toolscache.ResourceEventHandler{
			toolscache.ResourceEventHandlerFuncs{},
			toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-slow }, DeleteFunc: func(any) { <-slow }},
		} {
			if _, err := i.AddEventHandler(handler); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"cm-0", "cm-3"} {
			s.Delete("configmaps", "a", name)
		}
		synctest.Wait()
		close(slow)
		expectKept(len(s.Objects("configmaps")))
		stop()
		m.expect(t)
	})
}
