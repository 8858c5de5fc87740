package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// names is a handler that records the events it receives.
type names struct {
	mu       sync.Mutex
	received []string
}

func (n *names) add(what string, obj client.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.received = append(n.received, what+" "+obj.GetName())
}

func (n *names) Create(_ context.Context, e event.CreateEvent, _ queue) {
	n.add(map[bool]string{true: "initial", false: "create"}[e.IsInInitialList], e.Object)
}
func (n *names) Update(_ context.Context, e event.UpdateEvent, _ queue) { n.add("update", e.ObjectNew) }
func (n *names) Delete(_ context.Context, e event.DeleteEvent, _ queue) {
	n.add(map[bool]string{true: "lost", false: "delete"}[e.DeleteStateUnknown], e.Object)
}
func (n *names) Generic(_ context.Context, e event.GenericEvent, _ queue) { n.add("generic", e.Object) }

func (n *names) expect(t *testing.T, want ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.received, want) {
		t.Errorf("received %q, want %q", n.received, want)
	}
	n.received = nil
}

// informer is a cache of one informer, which the test notifies. It provides the informer once errs
// are used up.
type informer struct {
	cache.Cache
	cache.Informer
	errs     []error
	handlers []toolscache.ResourceEventHandler
	synced   chan struct{}
}

func (i *informer) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	if len(i.errs) > 0 {
		err := i.errs[0]
		i.errs = i.errs[1:]
		return nil, err
	}
	return i, nil
}

func (i *informer) WaitForCacheSync(context.Context) bool { return true }

func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	return registration{i.synced}, nil
}

func (i *informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	i.handlers = nil
	return nil
}

type registration struct{ synced chan struct{} }

func (r registration) HasSynced() bool                          { return toolscache.IsDone(r) }
func (r registration) HasSyncedChecker() toolscache.DoneChecker { return r }
func (r registration) Name() string                             { return "test" }
func (r registration) Done() <-chan struct{}                    { return r.synced }

func pod(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func TestKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		i, n := &informer{synced: make(chan struct{})}, &names{}
		i.errs = []error{&meta.NoKindMatchError{}, errors.New("later")}
		s := source.Kind[client.Object](i, pod(""), n, predicate.NewPredicateFuncs(func(obj client.Object) bool {
			return !strings.HasPrefix(obj.GetName(), "no")
		}))
		if err := s.Start(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(ctx, nil); err == nil {
			t.Error("the source was started twice")
		}
		synced := make(chan error)
		for range 2 {
			go func() { synced <- s.WaitForSync(ctx) }()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(i.handlers) != 1 {
			t.Fatalf("%d handlers", len(i.handlers))
		}
		h := i.handlers[0]
		h.OnAdd(pod("a"), true)
		h.OnAdd(pod("no"), true)
		select {
		case <-synced:
			t.Error("the source has synced before its handler has")
		default:
		}
		close(i.synced)
		for range 2 {
			if err := <-synced; err != nil {
				t.Error(err)
			}
		}
		h.OnAdd(pod("b"), false)
		h.OnUpdate(pod("a"), pod("a"))
		h.OnUpdate(pod("no"), pod("no"))
		h.OnDelete(pod("a"))
		h.OnDelete(pod("no"))
		h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: pod("b")})
		n.expect(t, "initial a", "create b", "update a", "delete a", "lost b")
		h.OnAdd("nonsense", false)
		h.OnUpdate(pod("a"), "nonsense")
		h.OnUpdate("nonsense", pod("a"))
		h.OnDelete("nonsense")
		h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: "nonsense"})
		n.expect(t)
		cancel()
		synctest.Wait()
		if len(i.handlers) != 0 {
			t.Error("the handler outlives the source")
		}
	})
}

func TestKindThatNeverSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &informer{}
		for range 1000 {
			i.errs = append(i.errs, &meta.NoKindMatchError{})
		}
		s := source.Kind[client.Object](i, pod(""), &names{})
		if err := s.Start(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := s.WaitForSync(ctx); err == nil || !strings.Contains(err.Error(), "timed out waiting for cache to be synced for kind source: *v1.Pod") {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if err := s.WaitForSync(t.Context()); !meta.IsNoMatchError(err) {
			t.Errorf("got %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := source.Kind[client.Object](&informer{synced: make(chan struct{})}, pod(""), &names{})
		if err := s.Start(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.WaitForSync(ctx); err != nil {
			t.Errorf("got %v from a controller that was stopped", err)
		}
	})
}

// TestErrorsOfInformersAreLogged: errors of the cache are logged, unless the cache or the source ends.
func TestErrorsOfInformersAreLogged(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		ends bool // before the error
		want int
	}{
		"a failure":                           {errors.New("no connection"), false, 1},
		"a missing kind":                      {&meta.NoKindMatchError{}, false, 1},
		"the cache has stopped":               {fmt.Errorf("the cache has stopped: %w", context.Canceled), false, 0},
		"a failure when the source has ended": {errors.New("no connection"), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged []string
				defer func(original logr.Logger) { log.Log = original }(log.Log)
				log.Log = funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.ends {
					cancel()
				}
				s := source.Kind[client.Object](&informer{errs: []error{tt.err}}, pod(""), &names{})
				if err := s.Start(ctx, nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if len(logged) != tt.want {
					t.Errorf("logged %q", logged)
				}
			})
		})
	}
}

// unsynced is a custom cache that never syncs: waiting for it returns at once.
type unsynced struct{ informer }

func (*unsynced) WaitForCacheSync(context.Context) bool { return false }

// removed is an informer of package cache that has ended before it has synced.
type removed struct{ informer }

func (*removed) WaitForSync(context.Context) bool { return false }

func (r *removed) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return r, nil
}

func TestKindWhoseCacheDoesNotSync(t *testing.T) {
	handlersSynced := make(chan struct{})
	close(handlersSynced)
	for name, c := range map[string]cache.Cache{
		"by the cache":    &unsynced{informer{synced: handlersSynced}},
		"by the informer": &removed{informer{synced: make(chan struct{})}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := source.Kind[client.Object](c, pod(""), &names{})
				if err := s.Start(ctx, nil); err != nil {
					t.Fatal(err)
				}
				if err := s.WaitForSync(ctx); err == nil || err.Error() != "cache did not sync" {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestStartErrors(t *testing.T) {
	var none handler.EventHandler
	events := make(chan event.GenericEvent)
	// The texts are controller-runtime's: programs test for them.
	for _, m := range []struct {
		source source.Source
		want   string
	}{
		{source.Kind[*corev1.Pod](&informer{}, nil, handler.TypedFuncs[*corev1.Pod, reconcile.Request]{}), "must create Kind with a non-nil object"},
		{source.Kind[client.Object](nil, pod(""), &names{}), "must create Kind with a non-nil cache"},
		{source.Kind(&informer{}, client.Object(pod("")), none), "must create Kind with non-nil handler"},
		{source.Kind(&informer{}, client.Object(pod("")), handler.EventHandler((*names)(nil))), "must create Kind with non-nil handler"},
		{&source.Informer{Handler: &names{}}, "must specify Informer.Informer"},
		{&source.Informer{Informer: &informer{}}, "must specify Informer.Handler"},
		{source.Kind(&informer{}, client.Object(pod("")), handler.EventHandler(&names{}), nil), "must create Kind with non-nil predicates"},
		{&source.Informer{Informer: &informer{}, Handler: &names{}, Predicates: []predicate.Predicate{nil}}, "must specify non-nil Informer.Predicates"},
		{source.Channel(events, handler.EventHandler(&names{}), source.WithPredicates[client.Object, reconcile.Request](nil)), "must specify non-nil predicates of Channel"},
		{source.Channel(nil, handler.EventHandler(&names{})), "must specify Channel.Source"},
		{source.Channel(events, none), "must specify Channel.Handler"},
		{source.Channel(events, handler.EventHandler((*names)(nil))), "must specify Channel.Handler"},
	} {
		if err := m.source.Start(t.Context(), nil); err == nil || err.Error() != m.want {
			t.Errorf("%s: got %v, want %q", m.source, err, m.want)
		}
	}
}

func TestInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		i, n := &informer{}, &names{}
		if err := (&source.Informer{Informer: i, Handler: n}).Start(ctx, nil); err != nil {
			t.Fatal(err)
		}
		i.handlers[0].OnAdd(pod("a"), false)
		n.expect(t, "create a")
		cancel()
		synctest.Wait()
		if len(i.handlers) != 0 {
			t.Error("the handler outlives the source")
		}
	})
}

func TestChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan event.GenericEvent)
		n := &names{}
		s := source.Channel(events, handler.EventHandler(n),
			source.WithBufferSize[client.Object, reconcile.Request](1),
			source.WithPredicates[client.Object, reconcile.Request](predicate.NewPredicateFuncs(func(obj client.Object) bool {
				return obj.GetName() != "no"
			})))
		ctx, cancel := context.WithCancel(t.Context())
		if err := s.Start(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(ctx, nil); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "no", "b"} {
			events <- event.GenericEvent{Object: pod(name)}
		}
		synctest.Wait()
		slices.Sort(n.received)
		n.expect(t, "generic a", "generic a", "generic b", "generic b")
		cancel()
		synctest.Wait()
		for _, name := range []string{"c", "d", "e", "f"} {
			events <- event.GenericEvent{Object: pod(name)}
		}
		synctest.Wait()
		n.expect(t, "generic c", "generic d", "generic e", "generic f")
		close(events)
	})
}

func TestFunc(t *testing.T) {
	called := errors.New("called")
	f := source.Func(func(context.Context, queue) error { return called })
	if err := f.Start(t.Context(), nil); err != called {
		t.Errorf("got %v", err)
	}
}

func TestNames(t *testing.T) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("apps/v1")
	u.SetKind("Deployment")
	for want, s := range map[string]any{
		"kind source: *v1.Pod": source.Kind[client.Object](nil, pod(""), nil),
		"kind source: *unstructured.Unstructured[apps/v1 Deployment]": source.Kind[client.Object](nil, u, nil),
		"kind source: *v1.PartialObjectMetadata[apps/v1 Deployment]": source.Kind[client.Object](nil, &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}, nil),
		"kind source: unknown type": source.Kind[*corev1.Pod](nil, nil, nil),
		"informer source: ":         &source.Informer{},
		"func source: ":             source.Func(nil),
		"channel source: ":          source.Channel[client.Object](nil, nil),
	} {
		if got := s.(interface{ String() string }).String(); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
