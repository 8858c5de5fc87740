package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/log"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventLog records events in order.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (d *eventLog) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// expect compares the events since the last call.
func (d *eventLog) expect(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("got:\n\t%s\nwant:\n\t%s", strings.Join(d.lines, "\n\t"), strings.Join(want, "\n\t"))
	}
	d.lines = nil
}

// runnable records when it starts and when it stops.
func (d *eventLog) runnable(name string) RunnableFunc {
	return func(ctx context.Context) error {
		d.note("start %s", name)
		<-ctx.Done()
		d.note("stop %s", name)
		return nil
	}
}

// The kinds of runnables that have different phases.
type (
	always struct{ Runnable }
	caches struct {
		Runnable
		cache.Cache
		synced func() bool
	}
	warms struct {
		Runnable
		d *eventLog
	}
	activeAndWarm struct{ always }
)

func (always) NeedLeaderElection() bool                { return false }
func (c caches) Start(ctx context.Context) error       { return c.Runnable.Start(ctx) }
func (c caches) GetCache() cache.Cache                 { return c }
func (c caches) WaitForCacheSync(context.Context) bool { return c.synced() }
func (w warms) Warmup(ctx context.Context) error {
	w.d.note("warm up")
	<-ctx.Done()
	w.d.note("cool down")
	return nil
}

func (activeAndWarm) Warmup(context.Context) error { return nil }

func testLifecycle(lock resourcelock.Interface) *lifecycle {
	options := Options{Logger: logr.Discard(), LeaderElectionID: "test", LeaderElectionReleaseOnCancel: true}
	options.complete()
	return newLifecycle(options, lock, nil)
}

// begin runs l until stop is called, which returns the result.
func begin(t *testing.T, l *lifecycle) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func TestPhases(t *testing.T) {
	want := []string{"HTTP servers", "webhooks", "caches", "others", "warm-up", "leader election", "leader-only"}
	var got []string
	for _, p := range testLifecycle(nil).phases {
		got = append(got, p.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the phases are %q, want %q", got, want)
	}
}

func TestPhaseOfARunnable(t *testing.T) {
	var d eventLog
	r := d.runnable("r")
	for name, c := range map[string]struct {
		r    Runnable
		want string
	}{
		"a function":              {r, "leader-only"},
		"one without election":    {always{r}, "others"},
		"a server":                {&Server{}, "HTTP servers"},
		"a server of the leader":  {&Server{OnlyServeWhenLeader: true}, "leader-only"},
		"a cluster":               {caches{Runnable: r}, "caches"},
		"a controller that warms": {warms{r, &d}, "warm-up, leader-only"},
		"one of both":             {activeAndWarm{always{r}}, "others, warm-up"},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLifecycle(nil)
			if err := l.add(c.r); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range l.phases {
				if g, ok := p.(*group); ok && len(g.members) > 0 {
					got = append(got, g.name)
				}
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("it is in %s, want %s", s, c.want)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d eventLog
		l := testLifecycle(nil)
		inSync := make(chan struct{})
		for _, r := range []Runnable{
			d.runnable("leader"),
			warms{d.runnable("warm leader"), &d},
			always{d.runnable("other")},
			caches{Runnable: d.runnable("cache"), synced: func() bool { <-inSync; d.note("in sync"); return true }},
		} {
			if err := l.add(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.servers.add(member{run: d.runnable("server")}); err != nil {
			t.Fatal(err)
		}
		stop := begin(t, l)
		synctest.Wait()
		select {
		case <-l.elected:
			t.Error("elected before the caches are in sync")
		default:
		}
		close(inSync)
		<-l.elected
		synctest.Wait()
		// Phases without caches are over as soon as their runnables have been called.
		slices.Sort(d.lines[:2])
		slices.Sort(d.lines[3:])
		d.expect(t, "start cache", "start server", "in sync",
			"start leader", "start other", "start warm leader", "warm up")

		if err := l.add(d.runnable("late")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.expect(t, "start late")

		if err := stop(); err != nil {
			t.Error(err)
		}
		slices.Sort(d.lines[:3])
		d.expect(t, "stop late", "stop leader", "stop warm leader", "cool down", "stop other", "stop cache", "stop server")
		if err := l.add(d.runnable("too late")); !errors.Is(err, errStopping) {
			t.Errorf("added after the end: %v", err)
		}
	})
}

func TestARunnableThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d eventLog
		broken := errors.New("broken")
		l := testLifecycle(nil)
		_ = l.add(always{d.runnable("other")})
		_ = l.add(RunnableFunc(func(context.Context) error { time.Sleep(time.Minute); return broken }))
		if err := l.run(t.Context()); err != broken {
			t.Errorf("got %v", err)
		}
		d.expect(t, "start other", "stop other")
	})
}

func TestAFailureWhileCachesSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		l := testLifecycle(nil)
		_ = l.servers.add(member{run: func(context.Context) error { time.Sleep(time.Minute); return broken }})
		_ = l.caches.add(member{
			run:    func(ctx context.Context) error { <-ctx.Done(); return nil },
			synced: func(ctx context.Context) bool { <-ctx.Done(); return false },
		})
		_ = l.add(RunnableFunc(func(context.Context) error { t.Error("the leader's work began"); return nil }))
		if err := l.run(t.Context()); err != broken {
			t.Errorf("got %v", err)
		}
	})
}

func TestCachesThatDoNotSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLifecycle(nil)
		_ = l.caches.add(member{
			run:    func(ctx context.Context) error { <-ctx.Done(); return nil },
			synced: func(context.Context) bool { return false },
		})
		if err := l.run(t.Context()); err == nil || !strings.Contains(err.Error(), "caches did not sync") {
			t.Errorf("got %v", err)
		}
	})
}

// TestCachesAddedLate adds caches to a manager that runs: they are waited for as well.
func TestCachesAddedLate(t *testing.T) {
	for synced, want := range map[bool]string{true: "", false: "caches did not sync"} {
		synctest.Test(t, func(t *testing.T) {
			var d eventLog
			l := testLifecycle(nil)
			stop := begin(t, l)
			<-l.elected
			_ = l.add(caches{Runnable: d.runnable("cache"), synced: func() bool {
				d.note("wait for sync")
				return synced
			}})
			synctest.Wait()
			slices.Sort(d.lines)
			if !synced {
				d.expect(t, "start cache", "stop cache", "wait for sync")
			} else {
				d.expect(t, "start cache", "wait for sync")
			}
			if err := fmt.Sprint(stop()); !strings.Contains(err, want) || synced && err != "<nil>" {
				t.Errorf("synced %v: %v", synced, err)
			}
		})
	}
}

func TestStoppedBeforeAnythingIsInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d eventLog
		l := testLifecycle(nil)
		_ = l.add(caches{Runnable: d.runnable("cache"), synced: nil})
		l.caches.members[0].synced = func(ctx context.Context) bool { <-ctx.Done(); return false }
		_ = l.add(d.runnable("leader"))
		stop := begin(t, l)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		d.expect(t, "start cache", "stop cache")
	})
}

func TestGracePeriod(t *testing.T) {
	for name, c := range map[string]struct {
		grace, took time.Duration
		late        bool
	}{
		"enough": {grace: time.Hour, took: time.Minute},
		"short":  {grace: time.Second, took: time.Second, late: true},
		"none":   {grace: 0, took: 0},
		"any":    {grace: -1, took: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testLifecycle(nil)
				l.options.GracefulShutdownTimeout = &c.grace
				_ = l.add(RunnableFunc(func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(time.Minute)
					return errors.New("only logged")
				}))
				stop := begin(t, l)
				synctest.Wait()
				began := time.Now()
				err := stop()
				if took := time.Since(began); took != c.took || c.late != errors.Is(err, context.DeadlineExceeded) || !c.late && err != nil {
					t.Errorf("after %v: %v", took, err)
				}
				time.Sleep(time.Hour) // let what was left behind end
			})
		})
	}
}

func TestContextOfRunnables(t *testing.T) {
	type key struct{}
	for name, own := range map[string]bool{"the manager's logger": false, "their own logger": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				theirs, managers := logr.New(log.NullLogSink{}), logr.Discard().WithName("m")
				options := Options{Logger: managers, BaseContext: func() context.Context {
					ctx := context.WithValue(context.Background(), key{}, "value")
					if own {
						ctx = logr.NewContext(ctx, theirs)
					}
					return ctx
				}}
				options.complete()
				l := newLifecycle(options, nil, nil)
				_ = l.add(RunnableFunc(func(ctx context.Context) error {
					if ctx.Value(key{}) != "value" {
						t.Error("the base context is missing")
					}
					if _, null := log.FromContext(ctx).GetSink().(log.NullLogSink); null != own {
						t.Errorf("the logger is %T", log.FromContext(ctx).GetSink())
					}
					return errors.New("end")
				}))
				_ = l.run(t.Context())
			})
		})
	}
}

// lease is a lock that several candidates can share.
type lease struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
	cut     map[string]bool // candidates that cannot reach it
}

// candidate is one replica's view of a lease.
type candidate struct {
	*lease
	id   string
	seen int
}

func (c *candidate) reach() error {
	if c.cut[c.id] {
		return errors.New("unreachable")
	}
	return nil
}

func (c *candidate) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reach(); err != nil {
		return nil, nil, err
	}
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	if c.record == nil {
		return nil, nil, apierrors.NewNotFound(leases, "test")
	}
	c.seen = c.version
	copied := *c.record
	raw, err := json.Marshal(copied)
	return &copied, raw, err
}

func (c *candidate) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return c.Update(ctx, r)
}

func (c *candidate) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reach(); err != nil {
		return err
	}
	if c.seen != c.version {
		return errors.New("changed meanwhile")
	}
	c.version++
	c.seen = c.version
	c.record = &r
	return nil
}

func (l *lease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.HolderIdentity
}

func (*candidate) RecordEvent(string)     {}
func (c *candidate) Identity() string     { return c.id }
func (c *candidate) Describe() string     { return "test/" + c.id }
func (l *lease) setCut(id string, v bool) { l.mu.Lock(); l.cut[id] = v; l.mu.Unlock() }

func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d eventLog
		shared := &lease{cut: map[string]bool{}}
		replica := func(id string) (*lifecycle, func() error) {
			l := testLifecycle(&candidate{lease: shared, id: id})
			_ = l.add(RunnableFunc(func(ctx context.Context) error {
				d.note("%s leads", id)
				<-ctx.Done()
				time.Sleep(time.Second) // the last things to do
				d.note("%s has ended, the lease is still its: %v", id, shared.holder() == id)
				return nil
			}))
			_ = l.add(always{RunnableFunc(func(ctx context.Context) error { <-ctx.Done(); return nil })})
			return l, begin(t, l)
		}
		_, stopA := replica("a")
		synctest.Wait()
		b, stopB := replica("b")
		time.Sleep(time.Minute)
		d.expect(t, "a leads")
		select {
		case <-b.elected:
			t.Error("two are elected")
		default:
		}

		if err := stopA(); err != nil {
			t.Error(err)
		}
		released := time.Now()
		<-b.elected
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("the released lease was taken after %v", took)
		}
		synctest.Wait()
		d.expect(t, "a has ended, the lease is still its: true", "b leads")

		// One that never led stops at once.
		_, stopC := replica("c")
		synctest.Wait()
		began := time.Now()
		if err := stopC(); err != nil || time.Since(began) != 0 {
			t.Errorf("c stopped with %v after %v", err, time.Since(began))
		}
		if err := stopB(); err != nil {
			t.Error(err)
		}
		d.expect(t, "b has ended, the lease is still its: true")
	})
}

func TestLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &lease{cut: map[string]bool{}}
		l := testLifecycle(&candidate{lease: shared, id: "a"})
		_ = l.add(RunnableFunc(func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Hour) // the manager does not wait for it
			return nil
		}))
		ended := make(chan error)
		go func() { ended <- l.run(t.Context()) }()
		<-l.elected
		shared.setCut("a", true)
		cut := time.Now()
		err := <-ended
		if err == nil || err.Error() != "leader election lost" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(cut); took > 25*time.Second {
			t.Errorf("noticed after %v", took)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestInvalidLeaseDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLifecycle(&candidate{lease: &lease{}, id: "a"})
		l.phases[5].(*election).options.LeaseDuration = ptr.To(time.Second)
		if err := l.run(t.Context()); err == nil || !strings.Contains(err.Error(), "leaseDuration must be greater than renewDeadline") {
			t.Errorf("got %v", err)
		}
	})
}

func TestCancelCauseIsNotReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		l := testLifecycle(nil)
		ended := make(chan error)
		go func() { ended <- l.run(ctx) }()
		<-l.elected
		cancel(errors.New("canceled by the caller"))
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
