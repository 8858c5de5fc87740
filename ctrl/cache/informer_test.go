package cache

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
)

// recorder is a handler that remembers what it was told. It blocks while held.
type recorder struct {
	mu   sync.Mutex
	told []string
	hold chan struct{}
}

func (r *recorder) tell(format string, args ...any) {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, fmt.Sprintf(format, args...))
}

func describe(obj any) string {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return unknown.Key + "?"
	}
	o := obj.(client.Object)
	return o.GetNamespace() + "/" + o.GetName() + "=" + o.GetLabels()["number"]
}

func (r *recorder) OnAdd(obj any, initial bool) {
	r.tell("add %s %v", describe(obj), initial)
}
func (r *recorder) OnUpdate(before, after any) {
	r.tell("update %s %s", describe(before), describe(after))
}
func (r *recorder) OnDelete(obj any) { r.tell("delete %s", describe(obj)) }

// expect waits until everything is idle and compares what was told since the
// last call.
func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.told, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(r.told, "\n"), strings.Join(want, "\n"))
	}
	r.told = nil
}

// single runs a test on a server with one object.
func single(t *testing.T, opts Options, f func(t *testing.T, s *server, c *informerCache, i Informer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(configMap("a", "one", "number", "1"))
		c := open(t, s, opts)
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		f(t, s, c, i)
	})
}

func TestHandlers(t *testing.T) {
	single(t, Options{}, func(t *testing.T, s *server, c *informerCache, i Informer) {
		early, late := &recorder{}, &recorder{}
		registration, err := i.AddEventHandler(early)
		if err != nil {
			t.Fatal(err)
		}
		if registration.HasSynced() {
			t.Error("a handler has synced before the start")
		}
		run(t, c)
		early.expect(t, "add a/one=1 true")
		if !registration.HasSynced() {
			t.Error("a handler that has heard of everything has not synced")
		}
		s.put(configMap("a", "two", "number", "2"))
		early.expect(t, "add a/two=2 false")
		s.put(configMap("a", "two", "number", "3"))
		s.Delete("configmaps", "a", "one")
		early.expect(t, "update a/two=2 a/two=3", "delete a/one=1")

		if _, err := i.AddEventHandler(late); err != nil {
			t.Fatal(err)
		}
		late.expect(t, "add a/two=3 true")
		if err := i.RemoveEventHandler(registration); err != nil {
			t.Error(err)
		}
		if err := i.RemoveEventHandler(registration); err != nil {
			t.Error(err)
		}
		s.Delete("configmaps", "a", "two")
		late.expect(t, "delete a/two=3")
		early.expect(t)
		if err := i.RemoveEventHandler(otherHandle{}); err == nil {
			t.Error("a handle of another make was removed")
		}
	})
}

type otherHandle struct {
	toolscache.ResourceEventHandlerRegistration
}

// What was missed while there was no connection is told as well as it can be.
func TestHandlersAfterRelist(t *testing.T) {
	single(t, Options{}, func(t *testing.T, s *server, c *informerCache, i Informer) {
		r := &recorder{}
		if _, err := i.AddEventHandler(r); err != nil {
			t.Fatal(err)
		}
		run(t, c)
		s.put(configMap("a", "two", "number", "2"))
		s.put(configMap("a", "three", "number", "3"))
		synctest.Wait()
		r.expect(t, "add a/one=1 true", "add a/two=2 false", "add a/three=3 false")
		s.breakAll("")
		s.put(configMap("a", "one", "number", "changed"))
		s.Delete("configmaps", "a", "two")
		s.Delete("configmaps", "a", "three")
		s.put(configMap("a", "three", "number", "again"))
		s.put(configMap("a", "new", "number", "4"))
		time.Sleep(time.Minute)
		r.expect(t, "add a/new=4 false", "update a/one=1 a/one=changed", "delete a/three?", "add a/three=again false", "delete a/two?")
	})
}

// A handler that is busy hears of many changes of an object at once, but of
// every deletion, and holds up nobody else.
func TestBusyHandler(t *testing.T) {
	single(t, Options{}, func(t *testing.T, s *server, c *informerCache, i Informer) {
		busy, idle := &recorder{hold: make(chan struct{})}, &recorder{}
		for _, r := range []*recorder{busy, idle} {
			if _, err := i.AddEventHandler(r); err != nil {
				t.Fatal(err)
			}
		}
		run(t, c)
		for n := range 100 {
			s.put(configMap("a", "one", "number", fmt.Sprint("u", n)))
			s.put(configMap("a", "two", "number", fmt.Sprint("v", n)))
			synctest.Wait()
		}
		s.Delete("configmaps", "a", "two")
		s.put(configMap("a", "two", "number", "again"))
		synctest.Wait()
		idle.mu.Lock()
		if len(idle.told) != 203 {
			t.Errorf("the idle handler was told %d things", len(idle.told))
		}
		idle.mu.Unlock()
		close(busy.hold)
		busy.expect(t, "add a/one=1 true", "update a/one=1 a/one=u99", "add a/two=v99 false", "delete a/two=v99", "add a/two=again false")
	})
}

func TestResync(t *testing.T) {
	single(t, Options{SyncPeriod: new(time.Hour)}, func(t *testing.T, s *server, c *informerCache, i Informer) {
		usual, never, often := &recorder{}, &recorder{}, &recorder{}
		if _, err := i.AddEventHandler(usual); err != nil {
			t.Fatal(err)
		}
		if _, err := i.AddEventHandlerWithResyncPeriod(never, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := i.AddEventHandlerWithOptions(often, toolscache.HandlerOptions{ResyncPeriod: new(10 * time.Minute)}); err != nil {
			t.Fatal(err)
		}
		run(t, c)
		time.Sleep(70 * time.Minute)
		usual.expect(t, "add a/one=1 true", "update a/one=1 a/one=1")
		never.expect(t, "add a/one=1 true")
		often.mu.Lock()
		defer often.mu.Unlock()
		if n := len(often.told); n < 6 || n > 8 {
			t.Errorf("told %q", often.told)
		}
	})
}

func TestHandlerOfSeveralNamespaces(t *testing.T) {
	opts := Options{DefaultNamespaces: map[string]Config{"a": {}, "b": {}}}
	single(t, opts, func(t *testing.T, s *server, c *informerCache, i Informer) {
		s.put(configMap("b", "two", "number", "2"))
		s.put(configMap("c", "three", "number", "3"))
		r := &recorder{}
		registration, err := i.AddEventHandler(r)
		if err != nil {
			t.Fatal(err)
		}
		run(t, c)
		synctest.Wait()
		slices.Sort(r.told)
		r.expect(t, "add a/one=1 true", "add b/two=2 true")
		if !registration.HasSynced() {
			t.Error("the handler has not synced")
		}
	})
}

func TestIndexers(t *testing.T) {
	single(t, Options{}, func(t *testing.T, s *server, c *informerCache, i Informer) {
		run(t, c)
		byName := toolscache.Indexers{"name": func(obj any) ([]string, error) {
			return []string{obj.(metav1.Object).GetName()}, nil
		}}
		if err := i.AddIndexers(byName); err != nil {
			t.Fatal(err)
		}
		if err := i.AddIndexers(byName); err == nil {
			t.Error("an index was added twice")
		}
		expect(t, names(t, c, client.MatchingFields{"name": "one"}), "a/one")
	})
}

// An informer of another make fills the cache as its own does.
func TestForeignInformer(t *testing.T) {
	opts := Options{NewInformer: toolscache.NewSharedIndexInformer}
	single(t, opts, func(t *testing.T, s *server, c *informerCache, i Informer) {
		r := &recorder{}
		if _, err := i.AddEventHandler(r); err != nil {
			t.Fatal(err)
		}
		run(t, c)
		s.put(configMap("a", "two", "number", "2"))
		r.expect(t, "add a/one=1 true", "add a/two=2 false")
		expect(t, names(t, c), "a/one a/two")
		s.put(configMap("a", "two", "number", "3"))
		s.Delete("configmaps", "a", "one")
		r.expect(t, "update a/two=2 a/two=3", "delete a/one=1")
		c.Wrote(t.Context(), s.put(configMap("a", "two", "number", "4")))
		expect(t, names(t, c, client.MatchingLabels{"number": "4"}), "a/two")
	})
}
