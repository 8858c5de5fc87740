package controller

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/overlay"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
	"flyball.dev/internal/heaptest"
)

// testInformer is one ConfigMap and its informer.
type testInformer struct {
	cache.Informer
	toolscache.ResourceEventHandler
	object *corev1.ConfigMap
}

func (i *testInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.ResourceEventHandler = h
	i.object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", ResourceVersion: "1"}}
	i.object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	h.OnAdd(i.object, true)
	return nil, nil
}

func (i *testInformer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	return nil
}

// write changes the object as a client does that is given ctx.
func (i *testInformer) write(ctx context.Context, who, value string) {
	before := i.object
	i.object = before.DeepCopy()
	i.object.Data = map[string]string{"n": value}
	i.object.ResourceVersion = value
	i.object.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: who, Time: ptr.To(metav1.Now()), FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:n":{}}}`),
	}}
	overlay.Observe(ctx, i.object)
	i.OnUpdate(before, i.object)
}

// watch runs a controller over a testInformer for a while: after each of the first hundred
// reconciles its reconciler and another client may write.
func watch(t *testing.T, options Options, own, other func(i int) bool, pace time.Duration) (name string) {
	t.Helper()
	var informer testInformer
	i := -1
	options.SkipNameValidation = ptr.To(true)
	options.Reconciler = reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		i++
		time.Sleep(pace)
		if i < 100 && own(i) {
			informer.write(ctx, "operator", fmt.Sprint("own-", i))
		}
		if i < 100 && other(i) {
			informer.write(context.Background(), "other", fmt.Sprint("other-", i))
		}
		return reconcile.Result{}, nil
	})
	name = unique(t)
	c, err := NewUnmanaged(name, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(&source.Informer{Informer: &informer, Handler: &handler.EnqueueRequestForObject{}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	time.Sleep(3 * time.Hour)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return name
}

func TestHotLoop(t *testing.T) {
	always, never := func(int) bool { return true }, func(int) bool { return false }
	for name, c := range map[string]struct {
		own, other func(i int) bool
		pace       time.Duration
		want       int
	}{
		"its own writes":         {own: always, other: never, want: 1},
		"slowly":                 {own: always, other: never, pace: time.Second, want: 1},
		"too slow to matter":     {own: always, other: never, pace: time.Minute},
		"for so long":            {own: always, other: never, pace: 2900 * time.Millisecond, want: 1},
		"it converges":           {own: func(i int) bool { return i < 19 }, other: never},
		"it converges and again": {own: func(i int) bool { return i%10 != 0 }, other: func(i int) bool { return i%10 == 0 }},
		"another client writes":  {own: never, other: always},
		"they take turns":        {own: always, other: func(i int) bool { return i%10 == 9 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var found []HotLoop
				controller := watch(t, Options{OnHotLoop: func(h HotLoop) { found = append(found, h) }}, c.own, c.other, c.pace)
				if n := testutil.ToFloat64(hotLoops.WithLabelValues(controller)); len(found) != c.want || int(n) != c.want {
					t.Fatalf("found %d, counted %v, want %d", len(found), n, c.want)
				}
				if c.want > 0 {
					text := found[0].Error()
					for _, part := range []string{controller, "default/c", " 20 times", "updated ConfigMap default/c at own-19 (data.n by operator)"} {
						if !strings.Contains(text, part) {
							t.Errorf("no %q in: %s", part, text)
						}
					}
				}
			})
		})
	}
}

func TestHotLoopIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, args string) {
			if strings.Contains(args, "Hot loop") {
				lines = append(lines, args)
			}
		}, funcr.Options{})
		watch(t, Options{Logger: logger}, func(int) bool { return true }, func(int) bool { return false }, 0)
		if len(lines) != 1 || !strings.Contains(lines[0], "(data.n by operator)") || strings.Contains(lines[0], `data="`) {
			t.Errorf("logged %q", lines)
		}
	})
}

// TestHotLoopAmongMany reconciles very many objects, with a write or five each, and one object that
// is in a hot loop among them. Memory must not grow with the number of objects.
func TestHotLoopAmongMany(t *testing.T) {
	const most = 512 << 10
	for writes, many := range map[int]int{1: 30_000, 5: 26_000} {
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			var found []HotLoop
			c, err := NewUnmanaged(t.Name(), Options{
				SkipNameValidation: new(true),
				OnHotLoop:          func(h HotLoop) { found = append(found, h) },
				Reconciler:         reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }),
			})
			if err != nil {
				t.Fatal(err)
			}
			inner := c.(*controller[reconcile.Request])
			heap := heaptest.New(t)
			l := newHotLoopDetector(inner, newCounters(inner.name), nil)
			now, hot := time.Now(), 0
			run := func(name string, version int, why reconcile.Cause) (wrote write) {
				call := &reconcileContext[reconcile.Request]{controller: inner, causes: reconcile.Causes{List: []reconcile.Cause{why}}}
				call.req.Namespace, call.req.Name = "default", name
				for i := range writes {
					object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(name, "-", i), ResourceVersion: fmt.Sprint(version)}}
					call.ObserveWrite(object)
				}
				now = now.Add(20 * time.Microsecond)
				l.observe(call, now)
				return call.writes[writes-1]
			}
			why := reconcile.Cause{Kind: reconcile.CauseListed}
			for i := range many {
				// Objects are often reconciled a second time for what they wrote.
				name := fmt.Sprint("cold-", i)
				wrote := run(name, i, reconcile.Cause{Kind: reconcile.CauseListed})
				if i%3 == 0 {
					run(name, i, reconcile.Cause{Kind: reconcile.CauseUpdated, Object: wrote.object, ResourceVersion: wrote.version})
				}
				if i%500 == 0 && hot < 50 {
					hot++
					wrote := run("hot", i, why)
					why = reconcile.Cause{Kind: reconcile.CauseUpdated, Object: wrote.object, ResourceVersion: wrote.version}
				}
			}
			held := heap.Held()
			t.Logf("%d bytes are held", held)
			if held > most {
				t.Errorf("%d objects have left %d bytes, want at most %d", many, held, most)
			}
			runtime.KeepAlive(l)
			if len(found) != 1 || found[0].Request != "default/hot" {
				t.Errorf("found %v", found)
			}
		})
	}
}

// TestManyHotLoops has far more hot loops than are reported.
func TestManyHotLoops(t *testing.T) {
	found := map[string]int{}
	c := &controller[int]{name: unique(t), options: TypedOptions[int]{OnHotLoop: func(h HotLoop) { found[h.Request]++ }}}
	l := newHotLoopDetector(c, newCounters(c.name), nil)
	now := time.Now()
	last := map[int]write{}
	for round := range 200 {
		for req := range 4 * maxSuspects {
			call := &reconcileContext[int]{controller: c, req: req}
			if w, ok := last[req]; ok {
				call.causes.Add(reconcile.Cause{Kind: cause.Updated, Object: w.object, ResourceVersion: w.version})
			}
			w := write{version: fmt.Sprint(round)}
			w.object.Name = fmt.Sprint(req)
			call.writes, last[req] = []write{w}, w
			l.observe(call, now)
		}
		now = now.Add(time.Second)
	}
	if len(found) != maxSuspects || len(l.suspects) != maxSuspects {
		t.Errorf("%d are reported and %d remembered, want %d", len(found), len(l.suspects), maxSuspects)
	}
	for req, n := range found {
		if n != 1 {
			t.Errorf("%s is reported %d times", req, n)
		}
	}
	// They stop, are removed, and make room for others.
	now = now.Add(2 * reportInterval)
	l.observe(&reconcileContext[int]{controller: c}, now)
	if n := len(l.suspects); n != 0 {
		t.Errorf("%d requests that are no longer reconciled are stored", n)
	}
}

// TestHotLoopOfDeletions deletes and makes again what it owns.
func TestHotLoopOfDeletions(t *testing.T) {
	found := 0
	c := &controller[int]{name: unique(t), options: TypedOptions[int]{OnHotLoop: func(h HotLoop) { found++ }}}
	l := newHotLoopDetector(c, newCounters(c.name), nil)
	now := time.Now()
	call1 := &reconcileContext[int]{controller: c}
	for i := range 2 * hotLoopRuns {
		w := write{version: fmt.Sprint(i)}
		w.object.Name = "owned"
		call1.writes = []write{w}
		l.observe(call1, now)
		// The event has a later version than what the client knew.
		why := reconcile.Cause{Kind: cause.Deleted, Object: w.object, ResourceVersion: fmt.Sprint(i + 1000)}
		call1 = &reconcileContext[int]{controller: c, causes: reconcile.Causes{List: []reconcile.Cause{why}}}
		now = now.Add(time.Second)
	}
	if found != 1 {
		t.Errorf("found %d, want 1", found)
	}
}

// An operator that creates, or deletes, one object in each reconcile gets somewhere, but not if that has
// no end.
func TestHotLoopOfManyObjects(t *testing.T) {
	const parent = "parent"
	event := func(kind cause.Kind, name string, version int) reconcile.Cause {
		c := reconcile.Cause{Kind: kind, ResourceVersion: fmt.Sprint(version)}
		c.Object.Name = name
		return c
	}
	written := func(name string, version int) write {
		w := write{version: fmt.Sprint(version)}
		w.object.Name = name
		return w
	}
	type reconciled struct {
		causes []reconcile.Cause // of the next reconcile
		writes []write
	}
	for name, test := range map[string]struct {
		step func(i int) reconciled
		n    int
		want int
	}{
		"creates": {func(i int) reconciled {
			child := fmt.Sprint("child-", i)
			return reconciled{[]reconcile.Cause{event(cause.Created, child, i), event(cause.Updated, parent, 1000+i)},
				[]write{written(child, i), written(parent, 1000+i)}}
		}, 30, 0},
		"creates, and writes its status in between": {func(i int) reconciled {
			if i%2 == 1 {
				return reconciled{[]reconcile.Cause{event(cause.Updated, parent, i)}, []write{written(parent, i)}}
			}
			child := fmt.Sprint("child-", i)
			return reconciled{[]reconcile.Cause{event(cause.Created, child, i)}, []write{written(child, i)}}
		}, 60, 0},
		"creates what it does not watch": {func(i int) reconciled {
			return reconciled{[]reconcile.Cause{event(cause.Updated, parent, i)},
				[]write{written(fmt.Sprint("child-", i), i), written(parent, i)}}
		}, 30, 0},
		"creates, then deletes": {func(i int) reconciled {
			child, kind := fmt.Sprint("child-", i%30), cause.Created
			if i >= 30 {
				kind = cause.Deleted
			}
			return reconciled{[]reconcile.Cause{event(kind, child, i)}, []write{written(child, i)}}
		}, 60, 0},
		"creates without end": {func(i int) reconciled {
			child := fmt.Sprint("child-", i)
			return reconciled{[]reconcile.Cause{event(cause.Created, child, i)}, []write{written(child, i)}}
		}, 400, 1},
		"creates and deletes the same": {func(i int) reconciled {
			kind := []cause.Kind{cause.Created, cause.Deleted}[i%2]
			return reconciled{[]reconcile.Cause{event(kind, "child", i)}, []write{written("child", i)}}
		}, 60, 1},
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			c := &controller[int]{name: unique(t), options: TypedOptions[int]{OnHotLoop: func(h HotLoop) { found++ }}}
			l := newHotLoopDetector(c, newCounters(c.name), nil)
			now := time.Now()
			call := &reconcileContext[int]{controller: c}
			for i := range test.n {
				r := test.step(i)
				call.writes = r.writes
				l.observe(call, now)
				call = &reconcileContext[int]{controller: c, causes: reconcile.Causes{List: r.causes}}
				now = now.Add(100 * time.Millisecond)
			}
			if found != test.want {
				t.Errorf("found %d, want %d", found, test.want)
			}
		})
	}
}

// TestHotLoopDetectionDisabled checks that DetectHotLoops=false records nothing.
func TestHotLoopDetectionDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observer any = "none"
		options := Options{DetectHotLoops: ptr.To(false), OnHotLoop: func(h HotLoop) { t.Error(h) }}
		i := 0
		var informer testInformer
		options.Reconciler = reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			observer = ctx.Value(overlay.ObserverKey{})
			if i++; i < 100 {
				informer.write(ctx, "operator", fmt.Sprint(i))
			}
			return reconcile.Result{}, nil
		})
		c, err := NewUnmanaged(unique(t), options)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Watch(&source.Informer{Informer: &informer, Handler: &handler.EnqueueRequestForObject{}}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Start(ctx) }()
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if i != 100 || observer != nil {
			t.Errorf("%d reconciles, the last of which was observed by %v", i, observer)
		}
		if l := newHotLoopDetector(c.(*controller[reconcile.Request]), nil, nil); l != nil {
			t.Error("there is a detector all the same")
		}
	})
}
