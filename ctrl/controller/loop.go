package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// controller implements TypedController. It has no goroutine but its workers.
type controller[request comparable] struct {
	name    string
	options TypedOptions[request] // complete

	mu      sync.Mutex
	started bool
	pending []source.TypedSource[request] // to be started with the controller
	feed    *feed[request]                // what the sources feed, once they are started
}

func (c *controller[request]) GetLogger() logr.Logger { return c.options.LogConstructor(nil) }

// NeedLeaderElection tells the manager when to start the controller.
func (c *controller[request]) NeedLeaderElection() bool {
	return ptr.Deref(c.options.NeedLeaderElection, true)
}

// Warmup starts the sources, if that is wanted before this process leads.
func (c *controller[request]) Warmup(ctx context.Context) error {
	if !ptr.Deref(c.options.EnableWarmup, false) {
		return nil
	}
	_, err := c.startSources(ctx)
	return err
}

func (c *controller[request]) Start(ctx context.Context) error {
	c.mu.Lock()
	again := c.started
	c.started = true
	c.mu.Unlock()
	if again {
		return errors.New("controller was started more than once. This is likely to be caused by being added to a manager multiple times")
	}
	m := newCounters(c.name)
	m.maxWorkers.Set(float64(c.options.MaxConcurrentReconciles))

	queue, err := c.startSources(ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, queue.ShutDown)()

	logger := c.GetLogger()
	logger.Info("Starting workers", "worker count", c.options.MaxConcurrentReconciles)
	var workers sync.WaitGroup
	for range c.options.MaxConcurrentReconciles {
		workers.Go(func() { c.work(ctx, queue, m) })
	}
	<-ctx.Done()
	logger.Info("Shutdown signal received, waiting for all workers to finish")
	workers.Wait()
	logger.Info("All workers finished")
	return nil
}

// work reconciles one request after the other until the queue is shut down.
func (c *controller[request]) work(ctx context.Context, queue priorityqueue.PriorityQueue[request], m *counters) {
	for {
		req, priority, shutdown := queue.GetWithPriority()
		if shutdown {
			return
		}
		c.process(ctx, queue, m, req, priority)
	}
}

// process reconciles one request and does what follows from it.
func (c *controller[request]) process(ctx context.Context, queue priorityqueue.PriorityQueue[request], m *counters, req request, priority int) {
	defer queue.Done(req)
	m.activeWorkers.Inc()
	defer m.activeWorkers.Dec()

	id := types.UID(uuid.NewString())
	logger := c.options.LogConstructor(&req).WithValues("reconcileID", id)
	reconcileCtx := context.WithValue(log.IntoContext(ctx, logger), reconcileIDKey{}, id)

	began := time.Now()
	result, err := c.Reconcile(reconcileCtx, req)
	m.duration.Observe(time.Since(began).Seconds())

	v := judge(result, err, queue.NumRequeues(req), ctx.Err() != nil)
	v.count(m)
	v.log(logger, result, err)
	if result.Priority != nil {
		priority = *result.Priority
	}
	if v.forget {
		queue.Forget(req)
	}
	if v.again {
		queue.AddWithOpts(priorityqueue.AddOpts{RateLimited: v.limited, After: v.after, Priority: &priority}, req)
	}
}

var errReconciliationTimeout = errors.New("reconciliation timeout")

// Reconcile calls the reconciler once. It may be called without the controller being started.
func (c *controller[request]) Reconcile(ctx context.Context, req request) (result reconcile.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			reconcilePanics.WithLabelValues(c.name).Inc()
			if !ptr.Deref(c.options.RecoverPanic, true) {
				log.FromContext(ctx).Info("Observed a panic in reconciler", "panic", fmt.Sprint(r))
				panic(r)
			}
			for _, handle := range utilruntime.PanicHandlers {
				handle(ctx, r)
			}
			result, err = reconcile.Result{}, fmt.Errorf("panic: %v [recovered]", r)
		}
	}()
	if c.options.ReconciliationTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.options.ReconciliationTimeout, errReconciliationTimeout)
		defer cancel()
		defer func() {
			if errors.Is(context.Cause(ctx), errReconciliationTimeout) {
				reconcileTimeouts.WithLabelValues(c.name).Inc()
			}
		}()
	}
	return c.options.Reconciler.Reconcile(ctx, req)
}

type reconcileIDKey struct{}

// ReconcileIDFromContext returns the ID of the reconcile that ctx belongs to, which its log lines
// carry as reconcileID. It is empty for any other context.
var ReconcileIDFromContext = func(ctx context.Context) types.UID {
	id, _ := ctx.Value(reconcileIDKey{}).(types.UID)
	return id
}

// unprioritized makes a PriorityQueue of a queue that knows no priorities.
type unprioritized[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]
}

func (q unprioritized[request]) AddWithOpts(o priorityqueue.AddOpts, items ...request) {
	for _, item := range items {
		switch {
		case o.RateLimited:
			q.AddRateLimited(item)
		case o.After > 0:
			q.AddAfter(item, o.After)
		default:
			q.Add(item)
		}
	}
}

func (q unprioritized[request]) GetWithPriority() (request, int, bool) {
	item, shutdown := q.Get()
	return item, 0, shutdown
}
