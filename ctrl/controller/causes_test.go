package controller

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
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/reconcile"
)

// addWithCause adds a request for a cause.
func (r *testController) addWithCause(c reconcile.Cause, req string) {
	r.queue.(priorityqueue.CauseRecorder[string]).AddWithCause(c, priorityqueue.AddOpts{}, req)
}

func TestAReconcilerSeesItsCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		var seen []string
		i := 0
		r := start(t, TypedOptions[string]{Logger: logger}, func(ctx context.Context, _ string) (reconcile.Result, error) {
			seen = append(seen, reconcile.CausesFrom(ctx).String())
			i++
			switch i {
			case 1:
				return reconcile.Result{}, errors.New("broken")
			case 2:
				//lint:ignore SA1019 reconcilers still use it
				return reconcile.Result{Requeue: true}, nil
			case 3:
				return reconcile.Result{RequeueAfter: time.Minute}, nil
			}
			return reconcile.Result{}, nil
		})
		why := reconcile.Cause{Kind: reconcile.CauseUpdated, ResourceVersion: "7"}
		why.Object.Name, why.GVK.Kind = "p", "Pod"
		r.addWithCause(why, "k")
		for range 4 {
			<-r.requests
		}
		r.queue.Add("k")
		<-r.requests
		synctest.Wait()
		_ = r.end()
		if want := []string{"updated Pod p at 7", "retry", "requeue", "requeue-after", ""}; !slices.Equal(seen, want) {
			t.Errorf("got %q, want %q", seen, want)
		}
		if all := strings.Join(lines, "\n"); !strings.Contains(all, `"causes"="updated Pod p at 7"`) {
			t.Errorf("the error was logged without its cause:\n%s", all)
		}
	})
}

func TestAQueueWithoutCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, TypedOptions[string]{
			NewQueue: func(_ string, l workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimitingInterface[string] {
				return workqueue.NewTypedRateLimitingQueue(l)
			},
		}, func(ctx context.Context, _ string) (reconcile.Result, error) {
			if c := reconcile.CausesFrom(ctx); c.Total != 0 {
				return reconcile.Result{}, fmt.Errorf("causes without an event: %v", c)
			}
			return reconcile.Result{}, nil
		})
		r.queue.Add("k")
		<-r.requests
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestTheContextOfAReconcile looks at it from many goroutines and after the reconcile.
func TestTheContextOfAReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		var kept context.Context
		r := start(t, TypedOptions[string]{
			LogConstructor: func(req *string) logr.Logger {
				if req != nil {
					made++
				}
				return logr.Discard()
			},
			ReconciliationTimeout: time.Hour,
		}, func(ctx context.Context, req string) (reconcile.Result, error) {
			kept = ctx
			if req == "quiet" {
				return reconcile.Result{}, nil
			}
			ids := map[any]bool{}
			var mu sync.Mutex
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					log.FromContext(ctx).Info("hello")
					id := ReconcileIDFromContext(ctx)
					mu.Lock()
					defer mu.Unlock()
					ids[id] = true
				})
			}
			all.Wait()
			if len(ids) != 1 || ids[""] {
				t.Errorf("the reconcile has the IDs %v", ids)
			}
			return reconcile.Result{}, nil
		})
		r.queue.Add("quiet")
		<-r.requests
		synctest.Wait()
		if made != 0 {
			t.Error("a logger was made for a reconcile that logs nothing")
		}
		r.queue.Add("k")
		<-r.requests
		synctest.Wait()
		if made != 1 {
			t.Errorf("%d loggers were made for one reconcile", made)
		}
		_ = r.end()
		if ReconcileIDFromContext(kept) == "" || kept.Value("nothing") != nil || kept.Err() == nil {
			t.Error("the context lost something when the reconcile was over")
		}
		if ReconcileIDFromContext(t.Context()) != "" || reconcile.CausesFrom(t.Context()).List != nil {
			t.Error("any context belongs to a reconcile")
		}
	})
}

func TestAHungReconcileIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		logger := funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(args, "running for long") {
				lines = append(lines, args)
			}
		}, funcr.Options{})
		r := start(t, TypedOptions[string]{Logger: logger, HungAfter: time.Minute, MaxConcurrentReconciles: 2},
			func(_ context.Context, req string) (reconcile.Result, error) {
				d, _ := time.ParseDuration(req)
				hang(d)
				return reconcile.Result{}, nil
			})
		for _, req := range []string{"59s", "59s", "58s", "90s", "10m"} {
			r.queue.Add(req)
		}
		for range 4 {
			<-r.requests
		}
		time.Sleep(time.Hour)
		_ = r.end()
		if len(lines) != 2 {
			t.Fatalf("%d reports, want 2: %s", len(lines), lines)
		}
		for _, line := range lines {
			if !strings.Contains(line, "controller.hang") || !strings.Contains(line, `"for"="1m0s"`) || strings.Count(line, "[sleep") != 1 {
				t.Errorf("the report is %s", line)
			}
		}
		if n := testutil.ToFloat64(hungReconciles.WithLabelValues(r.name)); n != 2 {
			t.Errorf("%v are counted", n)
		}
	})
}

//go:noinline
func hang(d time.Duration) { time.Sleep(d) }

func TestFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, TypedOptions[string]{Flow: func(req string) string { return req[:1] }, RecoverPanic: ptr.To(false)}, succeed)
		for _, req := range []string{"x", "a1", "a2", "a3", "b1"} {
			r.queue.Add(req)
		}
		var got []string
		for range 5 {
			got = append(got, <-r.requests)
		}
		// The worker may have had x before the others were there.
		if want := []string{"a1", "b1", "a2", "a3"}; !slices.Equal(slices.DeleteFunc(got, func(s string) bool { return s == "x" }), want) {
			t.Errorf("got %v, want %v", got, want)
		}
		_ = r.end()
	})
}
