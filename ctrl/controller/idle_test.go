package controller_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/testserver"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// idleManager starts a manager with one controller of ConfigMaps.
func idleManager(t *testing.T, r reconcile.Func, setUp ...func(*builder.Builder)) (manager.Manager, client.Client) {
	t.Helper()
	cfg := testserver.Start(t)
	skip := true
	mgr, err := manager.New(cfg, manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &skip},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{})
	for _, f := range setUp {
		f(b)
	}
	if err := b.Complete(r); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return mgr, c
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// Real time: the goroutines of server, watch, cache, handler and worker race with WaitIdle. Whatever
// was written before the call must have been reconciled when it returns.
func TestWaitIdleSeesEveryWrite(t *testing.T) {
	var reconciled atomic.Int64
	mgr, c := idleManager(t, func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
		reconciled.Add(1)
		return reconcile.Result{}, nil
	})
	ctx := t.Context()
	idle := func() {
		t.Helper()
		if _, err := manager.WaitIdle(ctx, mgr); err != nil {
			t.Fatal(err)
		}
	}
	idle()
	for n := range 300 {
		before := reconciled.Load()
		obj := configMap(fmt.Sprintf("object-%d", n))
		if err := c.Create(ctx, obj); err != nil {
			t.Fatal(err)
		}
		if n%3 == 0 { // nothing is left of it but the event
			if err := c.Delete(ctx, obj); err != nil {
				t.Fatal(err)
			}
		}
		idle()
		if reconciled.Load() == before {
			t.Fatalf("write %d was not reconciled when WaitIdle returned", n)
		}
	}
}

// A chain of writes, each made by the reconcile of the one before, is idle at its end.
func TestWaitIdleFollowsChains(t *testing.T) {
	const length = 50
	var c client.Client
	mgr, c := idleManager(t, func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		n := 0
		if _, err := fmt.Sscanf(req.Name, "link-%d", &n); err != nil || n == length {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, client.IgnoreAlreadyExists(c.Create(ctx, configMap(fmt.Sprintf("link-%d", n+1))))
	})
	if err := c.Create(t.Context(), configMap("link-0")); err != nil {
		t.Fatal(err)
	}
	if _, err := manager.WaitIdle(t.Context(), mgr); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: fmt.Sprintf("link-%d", length)}, configMap("")); err != nil {
		t.Error(err)
	}
}

// Requests that wait are returned with their times, and count again when these have come.
func TestWaitIdleReturnsWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing, done atomic.Int64
		mgr, c := idleManager(t, func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
			switch req.Name {
			case "later":
				done.Add(1)
				return reconcile.Result{RequeueAfter: time.Hour}, nil
			case "failing":
				if failing.Add(1) == 1 {
					return reconcile.Result{}, errors.New("once")
				}
			}
			return reconcile.Result{}, nil
		})
		for _, name := range []string{"later", "failing"} {
			if err := c.Create(t.Context(), configMap(name)); err != nil {
				t.Fatal(err)
			}
		}
		waiting, err := manager.WaitIdle(t.Context(), mgr)
		if err != nil {
			t.Fatal(err)
		}
		if len(waiting) != 2 || waiting[0].Request.(reconcile.Request).Name != "failing" ||
			waiting[1].Request.(reconcile.Request).Name != "later" || waiting[1].Controller != "configmap" {
			t.Fatalf("waiting: %v", waiting)
		}
		if in := time.Until(waiting[1].At).Round(time.Second); in != time.Hour {
			t.Errorf("it waits for %s", in)
		}
		time.Sleep(time.Until(waiting[1].At))
		waiting, err = manager.WaitIdle(t.Context(), mgr)
		if err != nil || len(waiting) != 1 || failing.Load() != 2 || done.Load() != 2 {
			t.Errorf("%v waiting, error %v, %d and %d reconciles", waiting, err, failing.Load(), done.Load())
		}
	})
}

// It waits for a reconcile in process, for its context, and for the manager to be started.
func TestWaitIdleWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mgr, c := idleManager(t, func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			if req.Name != "slow" {
				return reconcile.Result{}, nil
			}
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return reconcile.Result{}, nil
		})
		if err := c.Create(t.Context(), configMap("slow")); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := manager.WaitIdle(ctx, mgr); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if _, err := manager.WaitIdle(t.Context(), mgr); err != nil || time.Since(start).Round(time.Second) != time.Minute {
			t.Errorf("error %v after %s", err, time.Since(start))
		}
	})
}

// Events of a channel count from when they were sent.
func TestWaitIdleFlushesChannels(t *testing.T) {
	events := make(chan event.GenericEvent)
	var reconciled atomic.Int64
	mgr, _ := idleManager(t, func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
		if req.Name == "sent" {
			reconciled.Add(1)
		}
		return reconcile.Result{}, nil
	}, func(b *builder.Builder) {
		b.WatchesRawSource(source.Channel(events, &handler.EnqueueRequestForObject{}))
	})
	for n := range int64(200) {
		events <- event.GenericEvent{Object: configMap("sent")}
		if _, err := manager.WaitIdle(t.Context(), mgr); err != nil {
			t.Fatal(err)
		}
		if got := reconciled.Load(); got != n+1 {
			t.Fatalf("%d events were sent, %d reconciled", n+1, got)
		}
	}
}

// A manager that is made of another one has to have the method.
func TestWaitIdleOfForeignManagers(t *testing.T) {
	if _, err := manager.WaitIdle(t.Context(), struct{ manager.Manager }{}); err == nil {
		t.Error("no error")
	}
}
