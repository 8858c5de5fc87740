package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// BenchmarkReconcile is the cost of a reconcile that does nothing: queue, context, logger, metrics.
func BenchmarkReconcile(b *testing.B) {
	// Every request comes while the worker waits for one.
	b.Run("idle", func(b *testing.B) {
		requested := make(chan struct{}, 1)
		add := begin(b, func(workqueue.TypedRateLimitingInterface[reconcile.Request], reconcile.Request) {
			requested <- struct{}{}
		})
		for i := 0; b.Loop(); i++ {
			add(i)
			<-requested
		}
	})
	// The worker always has enough to do.
	b.Run("busy", func(b *testing.B) {
		done := make(chan struct{})
		left := b.N
		add := begin(b, func(q workqueue.TypedRateLimitingInterface[reconcile.Request], req reconcile.Request) {
			if left--; left < 0 {
				return
			}
			if q.Add(req); left == 0 {
				close(done)
			}
		})
		b.ResetTimer()
		for i := range 100 {
			add(i)
		}
		<-done
	})
}

// begin runs a controller with one worker until the benchmark is over, and returns a function that
// adds one of a thousand requests.
func begin(b *testing.B, reconciled func(workqueue.TypedRateLimitingInterface[reconcile.Request], reconcile.Request)) (add func(int)) {
	var queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	c, err := NewUnmanaged("benchmark", Options{
		SkipNameValidation: ptr.To(true),
		Logger:             logr.Discard(),
		Reconciler: reconcile.Func(func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
			reconciled(queue, req)
			return reconcile.Result{}, nil
		}),
	})
	if err != nil {
		b.Fatal(err)
	}
	ready := make(chan struct{})
	_ = c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue = q
		close(ready)
		return nil
	}))
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	<-ready
	requests := make([]reconcile.Request, 1000)
	for i := range requests {
		requests[i].NamespacedName = types.NamespacedName{Namespace: "default", Name: fmt.Sprint("object-", i)}
	}
	b.ReportAllocs()
	return func(i int) { queue.Add(requests[i%len(requests)]) }
}

// BenchmarkHotLoops is what the detector of hot loops adds to a reconcile that writes once.
func BenchmarkHotLoops(b *testing.B) {
	c := &controller[reconcile.Request]{name: "benchmark"}
	l := newHotLoopDetector(c, newCounters(c.name), nil)
	calls := make([]*reconcileContext[reconcile.Request], 10_000)
	for i := range calls {
		name := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("object-", i)}
		why := reconcile.Cause{Kind: reconcile.CauseUpdated, Object: name, ResourceVersion: "another"}
		calls[i] = &reconcileContext[reconcile.Request]{controller: c, writes: []write{{name, fmt.Sprint(i)}}}
		calls[i].req.NamespacedName = name
		calls[i].causes.List = []reconcile.Cause{why}
	}
	now := time.Now()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(100 * time.Microsecond)
		l.observe(calls[i%len(calls)], now)
	}
}
