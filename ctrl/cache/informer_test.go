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

// recorder is a handler that records its calls. It blocks until hold is closed.
type recorder struct {
	mu       sync.Mutex
	recorded []string
	hold     chan struct{}
}

func (r *recorder) record(format string, args ...any) {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded = append(r.recorded, fmt.Sprintf(format, args...))
}

func describe(obj any) string {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return unknown.Key + "?"
	}
	o := obj.(client.Object)
	return o.GetNamespace() + "/" + o.GetName() + "=" + o.GetLabels()["number"]
}

func (r *recorder) OnAdd(obj any, initial bool) {
	r.record("add %s %v", describe(obj), initial)
}
func (r *recorder) OnUpdate(before, after any) {
	r.record("update %s %s", describe(before), describe(after))
}
func (r *recorder) OnDelete(obj any) { r.record("delete %s", describe(obj)) }

// expect waits until all goroutines are blocked and compares the calls since the last one.
func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.recorded, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(r.recorded, "\n"), strings.Join(want, "\n"))
	}
	r.recorded = nil
}

// withOneObject runs a test on a server with one object.
func withOneObject(t *testing.T, opts Options, f func(t *testing.T, s *server, c *informerCache, i Informer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(configMap("a", "one", "number", "1"))
		c := newTestCache(t, s, opts)
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		f(t, s, c, i)
	})
}

// Handlers are notified from the time that they are added until they are removed.
func TestHandlers(t *testing.T) {
	withOneObject(t, Options{}, func(t *testing.T, s *server, c *informerCache, i Informer) {
		early, late := &recorder{}, &recorder{}
		registration, err := i.AddEventHandler(early)
		if err != nil {
			t.Fatal(err)
		}
		if registration.HasSynced() {
			t.Error("a handler has synced before the start")
		}
		startCache(t, c)
		early.expect(t, "add a/one=1 true")
		if !registration.HasSynced() {
			t.Error("a handler has not synced after the initial list")
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
			t.Error("the registration of another informer was removed")
		}
	})
}

// otherHandle is a registration that no informer of this package returned.
type otherHandle struct {
	toolscache.ResourceEventHandlerRegistration
}

// After a relist, handlers are notified of the changes that were missed, with the final state of
// deleted objects unknown.
func TestHandlersAfterRelist(t *testing.T) {
	withOneObject(t, Options{}, func(t *testing.T, s *server, c *informerCache, i Informer) {
		r := &recorder{}
		if _, err := i.AddEventHandler(r); err != nil {
			t.Fatal(err)
		}
		startCache(t, c)
		s.put(configMap("a", "two", "number", "2"))
		s.put(configMap("a", "three", "number", "3"))
		synctest.Wait()
		r.expect(t, "add a/one=1 true", "add a/two=2 false", "add a/three=3 false")
		s.breakWatches("")
		s.put(configMap("a", "one", "number", "changed"))
		s.Delete("configmaps", "a", "two")
		s.Delete("configmaps", "a", "three")
		s.put(configMap("a", "three", "number", "again"))
		s.put(configMap("a", "new", "number", "4"))
		time.Sleep(time.Minute)
		r.expect(t, "add a/new=4 false", "update a/one=1 a/one=changed", "delete a/three?", "add a/three=again false", "delete a/two?")
	})
}

// Changes coalesce while a handler is busy, except for deletions, and except for a handler that wants each. Other handlers are not delayed.
func TestBusyHandler(t *testing.T) {
	withOneObject(t, Options{}, func(t *testing.T, s *server, c *informerCache, i Informer) {
		busy, idle := &recorder{hold: make(chan struct{})}, &recorder{}
		each := eachChange{&recorder{hold: busy.hold}}
		for _, r := range []toolscache.ResourceEventHandler{busy, idle, each} {
			if _, err := i.AddEventHandler(r); err != nil {
				t.Fatal(err)
			}
		}
		startCache(t, c)
		for n := range 100 {
			s.put(configMap("a", "one", "number", fmt.Sprint("u", n)))
			s.put(configMap("a", "two", "number", fmt.Sprint("v", n)))
			synctest.Wait()
		}
		s.Delete("configmaps", "a", "two")
		s.put(configMap("a", "two", "number", "again"))
		synctest.Wait()
		idle.mu.Lock()
		if len(idle.recorded) != 203 {
			t.Errorf("the idle handler had %d calls", len(idle.recorded))
		}
		idle.mu.Unlock()
		close(busy.hold)
		busy.expect(t, "add a/one=1 true", "update a/one=1 a/one=u99", "add a/two=v99 false", "delete a/two=v99", "add a/two=again false")
		synctest.Wait()
		each.mu.Lock()
		defer each.mu.Unlock()
		if len(each.recorded) != 203 {
			t.Errorf("the handler that wants each change had %d calls", len(each.recorded))
		}
	})
}

// eachChange is a recorder that wants each change.
type eachChange struct{ *recorder }

func (eachChange) WantsEachChange() {}

func TestResync(t *testing.T) {
	withOneObject(t, Options{SyncPeriod: new(time.Hour)}, func(t *testing.T, s *server, c *informerCache, i Informer) {
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
		startCache(t, c)
		time.Sleep(70 * time.Minute)
		usual.expect(t, "add a/one=1 true", "update a/one=1 a/one=1")
		never.expect(t, "add a/one=1 true")
		often.mu.Lock()
		defer often.mu.Unlock()
		if n := len(often.recorded); n < 6 || n > 8 {
			t.Errorf("got %q", often.recorded)
		}
	})
}

func TestHandlerOfSeveralNamespaces(t *testing.T) {
	opts := Options{DefaultNamespaces: map[string]Config{"a": {}, "b": {}}}
	withOneObject(t, opts, func(t *testing.T, s *server, c *informerCache, i Informer) {
		s.put(configMap("b", "two", "number", "2"))
		s.put(configMap("c", "three", "number", "3"))
		r := &recorder{}
		registration, err := i.AddEventHandler(r)
		if err != nil {
			t.Fatal(err)
		}
		startCache(t, c)
		synctest.Wait()
		slices.Sort(r.recorded)
		r.expect(t, "add a/one=1 true", "add b/two=2 true")
		if !registration.HasSynced() {
			t.Error("the handler has not synced")
		}
	})
}

func TestIndexers(t *testing.T) {
	withOneObject(t, Options{}, func(t *testing.T, s *server, c *informerCache, i Informer) {
		startCache(t, c)
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

// Reads, handlers and own writes work with a custom informer.
func TestCustomInformer(t *testing.T) {
	opts := Options{NewInformer: toolscache.NewSharedIndexInformer}
	withOneObject(t, opts, func(t *testing.T, s *server, c *informerCache, i Informer) {
		r := &recorder{}
		if _, err := i.AddEventHandler(r); err != nil {
			t.Fatal(err)
		}
		startCache(t, c)
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
