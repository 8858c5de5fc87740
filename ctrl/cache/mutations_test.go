package cache

import (
	"context"
	"errors"
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

// mutations collects what is found.
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

// expect compares what was found since the last call.
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

// detecting returns a started cache that looks for mutations, and what stops it.
func detecting(t *testing.T, s *server, opts Options) (c Cache, stop func()) {
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

const shared = " is shared and must not be changed, but was: "

// A handler that changes what it is given is found by the time it returns, and
// one that goes on to do so later, by the time the object changes again.
func TestMutatingHandler(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		m := &mutations{}
		c, stop := detecting(t, s, Options{OnMutation: m.on})
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
		const by = ". It was given to the handler cache.ResourceEventHandlerFuncs; the change was noticed "
		const returned = by + "when the handler cache.ResourceEventHandlerFuncs had returned"
		m.expect(t, "ConfigMap a/cm-1"+shared+"data, metadata.labels.number"+returned)
		s.put(configMap("b", "cm-2", "number", "new"))
		m.expect(t)
		kept.Labels["number"] = "late"
		s.put(configMap("b", "cm-2", "number", "newer"))
		m.expect(t, "ConfigMap b/cm-2"+shared+"metadata.labels.number"+by+"before the handler cache.ResourceEventHandlerFuncs got it again")
		s.Delete("configmaps", "a", "cm-3")
		m.expect(t, "ConfigMap a/cm-3"+shared+"metadata.resourceVersion"+returned)
		kept.ManagedFields = []metav1.ManagedFieldsEntry{{}}
		stop()
		m.expect(t, "ConfigMap b/cm-2"+shared+"metadata.managedFields"+by+"when the informer had stopped")
	})
}

// Who reads without a deep copy must not change what the copy shares, but may do
// with the struct itself what they like.
func TestMutatingReader(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		m := &mutations{}
		c, stop := detecting(t, s, Options{OnMutation: m.on})
		const by = ". It was given to a reader without a deep copy; the change was noticed "
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
		list.Items[3].Object["data"] = 1 // not even a value of JSON
		stop()
		m.expect(t, "ConfigMap b/cm-3"+shared+"data"+by+"when the informer had stopped")
	})
}

// The environment variable makes a cache look, and panic.
func TestMutationVariable(t *testing.T) {
	t.Setenv(mutationVariable, "true")
	bubble(t, func(t *testing.T, s *server) {
		c, _ := detecting(t, s, Options{DefaultUnsafeDisableDeepCopy: new(true)})
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
		cm.Labels["number"] = "changed" // as it was at last
	})
}

// Nothing is remembered for nothing, and not too much.
func TestMutationMemory(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		if c := open(t, s, Options{}); c.opts.OnMutation != nil {
			t.Error("the cache looks for mutations that nobody asks for")
		}
		m := &mutations{}
		c, _ := detecting(t, s, Options{OnMutation: m.on, SyncPeriod: new(time.Hour)})
		r := &recorder{}
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.AddEventHandler(r); err != nil {
			t.Fatal(err)
		}
		for range 10 * mostLoans {
			s.put(configMap("a", "cm-1"))
			synctest.Wait()
		}
		time.Sleep(24 * time.Hour)
		l := i.(*informer).loans
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := len(l.byKey[key("a", "cm-1")]); n != mostLoans {
			t.Errorf("%d loans are remembered", n)
		}
	})
}
