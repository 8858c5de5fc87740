package controller

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// BenchmarkReconcile is the cost of a reconcile that does nothing: queue, context, logger, metrics.
func BenchmarkReconcile(b *testing.B) {
	var queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	asked := make(chan struct{}, 1)
	c, err := NewUnmanaged("benchmark", Options{
		SkipNameValidation: ptr.To(true),
		Logger:             logr.Discard(),
		Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			asked <- struct{}{}
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
	<-ready
	requests := make([]reconcile.Request, 1000)
	for i := range requests {
		requests[i].NamespacedName = types.NamespacedName{Namespace: "default", Name: fmt.Sprint("object-", i)}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		queue.Add(requests[i%len(requests)])
		<-asked
	}
	b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
