package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var runs atomic.Int64

// unique is a name that no other run of a test has: metrics and names outlive tests.
func unique(t *testing.T) string { return fmt.Sprintf("%s %d", t.Name(), runs.Add(1)) }

// testController is a controller of strings, with the requests that its reconciler receives.
type testController struct {
	TypedController[string]
	name     string
	queue    workqueue.TypedRateLimitingInterface[string]
	requests chan string
	done     chan error // the result of Start
	stop     context.CancelFunc
}

// reconciler is the Reconcile function of a test.
type reconciler func(ctx context.Context, req string) (reconcile.Result, error)

// start runs a controller in the bubble of the test. The test must take every request from
// requests.
func start(t *testing.T, options TypedOptions[string], do reconciler) *testController {
	t.Helper()
	r := &testController{name: unique(t), requests: make(chan string), done: make(chan error, 1)}
	options.SkipNameValidation = ptr.To(true)
	options.Reconciler = reconcile.TypedFunc[string](func(ctx context.Context, req string) (reconcile.Result, error) {
		r.requests <- req
		return do(ctx, req)
	})
	c, err := NewTypedUnmanaged(r.name, options)
	if err != nil {
		t.Fatal(err)
	}
	r.TypedController = c
	ready := make(chan struct{})
	if err := c.Watch(source.TypedFunc[string](func(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
		r.queue = q
		close(ready)
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() { r.done <- c.Start(ctx) }()
	<-ready
	return r
}

// end stops the controller and returns the result of Start.
func (r *testController) end() error {
	r.stop()
	return <-r.done
}

func succeed(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil }

func TestRequeue(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("old"))
	for name, c := range map[string]struct {
		results []reconcile.Result
		errs    []error
		want    []time.Duration // when the request comes again, after the first time
	}{
		"success":       {},
		"requeue after": {results: []reconcile.Result{{RequeueAfter: time.Hour}}, want: []time.Duration{time.Hour}},
		"requeue":       {results: []reconcile.Result{{Requeue: true}}, want: []time.Duration{5 * time.Millisecond}},
		"errors back off": {
			errs: []error{errors.New("1"), errors.New("2"), errors.New("3")},
			want: []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond},
		},
		"terminal":  {errs: []error{reconcile.TerminalError(errors.New("no"))}},
		"conflicts": {errs: []error{conflict, conflict}, want: []time.Duration{5 * time.Millisecond, 10 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := -1
				r := start(t, TypedOptions[string]{}, func(context.Context, string) (reconcile.Result, error) {
					i++
					var result reconcile.Result
					var err error
					if i < len(c.results) {
						result = c.results[i]
					}
					if i < len(c.errs) {
						err = c.errs[i]
					}
					return result, err
				})
				r.queue.Add("k")
				<-r.requests
				last := time.Now()
				var got []time.Duration
				for range c.want {
					<-r.requests
					got = append(got, time.Since(last))
					last = time.Now()
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("came again after %v, want %v", got, c.want)
				}
				select {
				case <-r.requests:
					t.Error("came once too often")
				case <-time.After(24 * time.Hour):
				}
				if n := r.queue.NumRequeues("k"); n != 0 {
					t.Errorf("the backoff was not forgotten: %d", n)
				}
				if err := r.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestPriorityIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		q := func(name string, limiter workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimitingInterface[string] {
			return &recordingQueue{priorityqueue.New(name, func(o *priorityqueue.Opts[string]) { o.RateLimiter = limiter }), &seen}
		}
		r := start(t, TypedOptions[string]{NewQueue: q}, func(_ context.Context, req string) (reconcile.Result, error) {
			switch len(seen) {
			case 1:
				return reconcile.Result{}, errors.New("again")
			case 2:
				return reconcile.Result{RequeueAfter: time.Second, Priority: ptr.To(9)}, nil
			}
			return reconcile.Result{}, nil
		})
		r.queue.(priorityqueue.PriorityQueue[string]).AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(3)}, "k")
		for range 3 {
			<-r.requests
		}
		synctest.Wait()
		if want := []string{"3", "3", "9"}; !slices.Equal(seen, want) {
			t.Errorf("added with %v, want %v", seen, want)
		}
		_ = r.end()
	})
}

// recordingQueue records the priorities with which requests are added.
type recordingQueue struct {
	priorityqueue.PriorityQueue[string]
	seen *[]string
}

func (s *recordingQueue) AddWithOpts(o priorityqueue.AddOpts, items ...string) {
	*s.seen = append(*s.seen, fmt.Sprint(ptr.Deref(o.Priority, 0)))
	s.PriorityQueue.AddWithOpts(o, items...)
}

func TestQueueWithoutPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		var causes []string
		r := start(t, TypedOptions[string]{UsePriorityQueue: ptr.To(false)}, func(ctx context.Context, _ string) (reconcile.Result, error) {
			tries++
			causes = append(causes, reconcile.CausesFrom(ctx).String())
			switch tries {
			case 1:
				return reconcile.Result{Priority: ptr.To(5)}, errors.New("again")
			case 2:
				return reconcile.Result{RequeueAfter: time.Minute}, nil
			}
			return reconcile.Result{}, nil
		})
		r.queue.Add("k")
		for range 3 {
			<-r.requests
		}
		r.queue.(priorityqueue.PriorityQueue[string]).AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(-1)}, "first", "second")
		r.queue.Add("third")
		for _, want := range []string{"first", "second", "third"} {
			if got := <-r.requests; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		_ = r.end()
		if want := []string{"", "retry", "requeue-after"}; !slices.Equal(causes[:3], want) {
			t.Errorf("the causes were %q, want %q", causes[:3], want)
		}
	})
}

func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := start(t, TypedOptions[string]{MaxConcurrentReconciles: 3}, func(context.Context, string) (reconcile.Result, error) {
			<-release
			return reconcile.Result{}, nil
		})
		for i := range 5 {
			r.queue.Add(fmt.Sprint(i))
			r.queue.Add(fmt.Sprint(i))
		}
		for range 3 {
			<-r.requests
		}
		synctest.Wait()
		if n := testutil.ToFloat64(activeWorkers.WithLabelValues(r.name)); n != 3 {
			t.Errorf("%v workers are active, want 3", n)
		}
		select {
		case req := <-r.requests:
			t.Errorf("%s is a fourth", req)
		default:
		}
		ended := make(chan error)
		go func() { ended <- r.end() }()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("Start returned while requests are being reconciled")
		default:
		}
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestPanic(t *testing.T) {
	defer func(handlers []func(context.Context, any)) { utilruntime.PanicHandlers = handlers }(utilruntime.PanicHandlers)
	var handled any
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, r any) { handled = r }}
	panics := reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) { panic("oh") })

	c, err := NewTypedUnmanaged(unique(t), TypedOptions[string]{Reconciler: panics})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Reconcile(t.Context(), "k")
	if err == nil || err.Error() != "panic: oh [recovered]" || handled != "oh" {
		t.Errorf("got %v, handled %v", err, handled)
	}

	c, err = NewTypedUnmanaged(unique(t), TypedOptions[string]{Reconciler: panics, RecoverPanic: ptr.To(false)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != "oh" {
			t.Errorf("recovered %v", r)
		}
	}()
	_, _ = c.Reconcile(t.Context(), "k")
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := unique(t)
		c, err := NewTypedUnmanaged(name, TypedOptions[string]{
			ReconciliationTimeout: time.Minute,
			Reconciler: reconcile.TypedFunc[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
				<-ctx.Done()
				return reconcile.Result{}, ctx.Err()
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := c.Reconcile(t.Context(), "k"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		shorter, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = c.Reconcile(shorter, "k") // the caller's deadline is not a timeout
		if n := testutil.ToFloat64(reconcileTimeouts.WithLabelValues(name)); n != 1 {
			t.Errorf("%v timeouts counted, want 1", n)
		}
	})
}

func TestContextOfAReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := funcr.New(func(prefix, args string) { fmt.Fprintln(&out, args) }, funcr.Options{})
		ids := make(chan string, 2)
		r := start(t, TypedOptions[string]{Logger: logger}, func(ctx context.Context, _ string) (reconcile.Result, error) {
			ids <- string(ReconcileIDFromContext(ctx))
			log.FromContext(ctx).Info("here")
			return reconcile.Result{}, nil
		})
		for range 2 {
			r.queue.Add("k")
			<-r.requests
			synctest.Wait()
		}
		_ = r.end()
		a, b := <-ids, <-ids
		if a == "" || a == b {
			t.Errorf("the IDs are %q and %q", a, b)
		}
		for _, want := range []string{a, b} {
			if !strings.Contains(out.String(), fmt.Sprintf(`"msg"="here" "controller"=%q "reconcileID"=%q`, r.name, want)) {
				t.Errorf("no line with the ID %s in:\n%s", want, out.String())
			}
		}
		if ReconcileIDFromContext(t.Context()) != "" {
			t.Error("a context that is none of a reconcile has an ID")
		}
	})
}

func TestConflictsAreLoggedAsInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := funcr.New(func(prefix, args string) { fmt.Fprintln(&out, args) }, funcr.Options{})
		n := 0
		r := start(t, TypedOptions[string]{Logger: logger}, func(context.Context, string) (reconcile.Result, error) {
			if n++; n > conflictThreshold+1 {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{}, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("old"))
		})
		r.queue.Add("k")
		for range conflictThreshold + 2 {
			<-r.requests
		}
		_ = r.end()
		if lines := strings.Count(out.String(), "Reconciler error"); lines != 1 {
			t.Errorf("%d errors logged for %d conflicts, want 1:\n%s", lines, conflictThreshold+1, out.String())
		}
		for result, want := range map[string]float64{"requeue": conflictThreshold, "error": 1, "success": 1} {
			if got := testutil.ToFloat64(reconcileTotal.WithLabelValues(r.name, result)); got != want {
				t.Errorf("%v %s, want %v", got, result, want)
			}
		}
		if got := testutil.ToFloat64(reconcileConflicts.WithLabelValues(r.name)); got != conflictThreshold+1 {
			t.Errorf("%v conflicts, want %d", got, conflictThreshold+1)
		}
	})
}

// syncing is a source that is in sync when its channel is closed.
type syncing struct {
	started chan struct{}
	inSync  chan struct{}
}

func (s syncing) Start(context.Context, workqueue.TypedRateLimitingInterface[string]) error {
	close(s.started)
	return nil
}

func (s syncing) WaitForSync(ctx context.Context) error {
	select {
	case <-s.inSync:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s syncing) String() string { return "slow source" }

func unmanaged(t *testing.T, options TypedOptions[string]) *controller[string] {
	t.Helper()
	options.SkipNameValidation = ptr.To(true)
	if options.Reconciler == nil {
		options.Reconciler = reconcile.TypedFunc[string](succeed)
	}
	c, err := NewTypedUnmanaged(t.Name(), options)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*controller[string])
}

func TestSourcesThatFail(t *testing.T) {
	broken := errors.New("broken")
	hangs := func(ctx context.Context, _ workqueue.TypedRateLimitingInterface[string]) error {
		<-ctx.Done()
		return nil
	}
	for name, c := range map[string]struct {
		src  func() source.TypedSource[string]
		want string
		is   error
	}{
		"does not start": {
			src: func() source.TypedSource[string] {
				return source.TypedFunc[string](func(context.Context, workqueue.TypedRateLimitingInterface[string]) error { return broken })
			},
			is: broken,
		},
		"hangs": {
			src:  func() source.TypedSource[string] { return source.TypedFunc[string](hangs) },
			want: "timed out waiting for source",
		},
		"is never in sync": {
			src:  func() source.TypedSource[string] { return syncing{make(chan struct{}), make(chan struct{})} },
			want: "caches to sync slow source", is: context.DeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ctl := unmanaged(t, TypedOptions[string]{})
				_ = ctl.Watch(c.src())
				began := time.Now()
				err := ctl.Start(ctx)
				if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); c.want != "" && took != 2*time.Minute {
					t.Errorf("it took %v", took)
				}
				if again := ctl.Start(ctx); again == nil {
					t.Error("it can be started again")
				}
			})
		})
	}
}

func TestStoppedWhileASourceIsNotInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ctl := unmanaged(t, TypedOptions[string]{})
		_ = ctl.Watch(syncing{make(chan struct{}), make(chan struct{})})
		ended := make(chan error)
		go func() { ended <- ctl.Start(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warm, stopWarm := context.WithCancel(t.Context())
		lead, stopLead := context.WithCancel(t.Context())
		var mu sync.Mutex
		var requested []string
		ctl := unmanaged(t, TypedOptions[string]{
			EnableWarmup: ptr.To(true),
			Reconciler: reconcile.TypedFunc[string](func(_ context.Context, req string) (reconcile.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				requested = append(requested, req)
				return reconcile.Result{}, nil
			}),
		})
		src := syncing{make(chan struct{}), make(chan struct{})}
		_ = ctl.Watch(src)
		var queue workqueue.TypedRateLimitingInterface[string]
		_ = ctl.Watch(source.TypedFunc[string](func(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
			queue = q
			q.Add("early")
			return nil
		}))
		go func() {
			if err := ctl.Warmup(warm); err != nil {
				t.Error(err)
			}
		}()
		<-src.started
		ended := make(chan error)
		go func() { ended <- ctl.Start(lead) }()
		synctest.Wait()
		if len(requested) > 0 {
			t.Error("it reconciled before the sources were in sync")
		}
		close(src.inSync)
		synctest.Wait()

		// A source that is added now is started at once.
		_ = ctl.Watch(source.TypedFunc[string](func(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
			q.Add("late")
			return nil
		}))
		synctest.Wait()
		mu.Lock()
		if want := []string{"early", "late"}; !slices.Equal(requested, want) {
			t.Errorf("requested %v, want %v", requested, want)
		}
		mu.Unlock()
		stopLead()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		stopWarm()
		if !queue.ShuttingDown() {
			t.Error("the queue is open after the end")
		}
	})
}

func TestWarmupDisabled(t *testing.T) {
	ctl := unmanaged(t, TypedOptions[string]{})
	_ = ctl.Watch(source.TypedFunc[string](func(context.Context, workqueue.TypedRateLimitingInterface[string]) error {
		t.Error("the source was started")
		return nil
	}))
	if err := ctl.Warmup(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNew(t *testing.T) {
	rec := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	if _, err := NewUnmanaged("nothing", Options{}); err == nil || err.Error() != "must specify Reconciler" {
		t.Errorf("without a reconciler: %v", err)
	}
	if _, err := NewUnmanaged("", Options{Reconciler: rec}); err == nil || err.Error() != "must specify Name for Controller" {
		t.Errorf("without a name: %v", err)
	}
	name := unique(t)
	if _, err := NewUnmanaged(name, Options{Reconciler: rec}); err != nil {
		t.Error(err)
	}
	if _, err := NewUnmanaged(name, Options{Reconciler: rec}); err == nil || !strings.Contains(err.Error(), "controller with name "+name+" already exists") {
		t.Errorf("a name used twice: %v", err)
	}
	if _, err := NewUnmanaged(name, Options{Reconciler: rec, SkipNameValidation: ptr.To(true)}); err != nil {
		t.Error(err)
	}
}

func TestDefaultFromConfig(t *testing.T) {
	c := config.Controller{
		SkipNameValidation: ptr.To(true), MaxConcurrentReconciles: 7, CacheSyncTimeout: 8, RecoverPanic: ptr.To(false),
		NeedLeaderElection: ptr.To(false), EnableWarmup: ptr.To(true), UsePriorityQueue: ptr.To(false),
		ReconciliationTimeout: 9, Logger: logr.Discard(),
	}
	var o Options
	o.DefaultFromConfig(c)
	if !*o.SkipNameValidation || o.MaxConcurrentReconciles != 7 || o.CacheSyncTimeout != 8 || *o.RecoverPanic ||
		*o.NeedLeaderElection || !*o.EnableWarmup || *o.UsePriorityQueue || o.ReconciliationTimeout != 9 {
		t.Errorf("got %+v", o)
	}
	set := Options{
		SkipNameValidation: ptr.To(false), MaxConcurrentReconciles: 1, CacheSyncTimeout: 2, RecoverPanic: ptr.To(true),
		NeedLeaderElection: ptr.To(true), EnableWarmup: ptr.To(false), UsePriorityQueue: ptr.To(true), ReconciliationTimeout: 3,
	}
	o = set
	o.DefaultFromConfig(c)
	if o.SkipNameValidation != set.SkipNameValidation || o.MaxConcurrentReconciles != 1 || o.CacheSyncTimeout != 2 ||
		o.RecoverPanic != set.RecoverPanic || o.NeedLeaderElection != set.NeedLeaderElection ||
		o.EnableWarmup != set.EnableWarmup || o.UsePriorityQueue != set.UsePriorityQueue || o.ReconciliationTimeout != 3 {
		t.Errorf("what was set was overwritten: %+v", o)
	}
}

// learner is a transport that learns of reconciles, and keeps the controller from going on after the second one.
type learner struct{ learned []string }

func (l *learner) Reconciled(ctx context.Context, controller string, request any) {
	if l.learned = append(l.learned, fmt.Sprintf("%s %v", controller, request)); len(l.learned) == 2 {
		<-ctx.Done()
	}
}

// TestReconciled tells the transport of each reconcile. The transport may hold the controller.
func TestReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &learner{}
		r := start(t, TypedOptions[string]{}, func(context.Context, string) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Second}, nil
		})
		r.TypedController.(*controller[string]).reconciles = l
		r.queue.Add("a")
		<-r.requests
		<-r.requests
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if want := r.name + " a"; !slices.Equal(l.learned, []string{want, want}) {
			t.Errorf("learned %q, want %q twice", l.learned, want)
		}
	})
}

// TestStopped: a controller is stopped when its workers have returned, or when it could not start.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := unmanaged(t, TypedOptions[string]{})
		if _, err := c.openQueue(); c.Stopped() || !errors.Is(err, errNotStarted) {
			t.Errorf("before the start: stopped is %v: %v", c.Stopped(), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Start(ctx) }()
		synctest.Wait()
		if _, err := c.openQueue(); c.Stopped() || err != nil {
			t.Errorf("while it runs: stopped is %v: %v", c.Stopped(), err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if _, err := c.openQueue(); !c.Stopped() || !errors.Is(err, errStopped) {
			t.Errorf("after the end: stopped is %v: %v", c.Stopped(), err)
		}
	})
}
