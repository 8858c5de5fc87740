package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/reconcile"
)

// Start starts the sources, waits until they are in sync, and runs the workers until ctx ends. It
// returns when they have returned, or with the error of the source that failed to start.
func (c *controller[request]) Start(ctx context.Context) error {
	c.mu.Lock()
	again := c.started
	c.started = true
	c.mu.Unlock()
	if again {
		return errors.New("controller was started more than once. " +
			"This is likely to be caused by being added to a manager multiple times")
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stopped = true
	}()
	m := newCounters(c.name)
	m.maxWorkers.Set(float64(c.options.MaxConcurrentReconciles))

	q, err := c.startSources(ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, q.ShutDown)()

	logger := c.GetLogger()
	logger.Info("Starting workers", "worker count", c.options.MaxConcurrentReconciles)
	p := &workerPool[request]{
		controller: c,
		ctx:        ctx,
		queue:      viewOf(q),
		metrics:    m,
		logger:     logger,
		hotLoops:   newHotLoopDetector(c, m, q),
		tracer:     tracerOf(c.options.TracerProvider),
	}
	if c.options.InTurn {
		p.turns = newTurns()
	}
	var workers sync.WaitGroup
	for range c.options.MaxConcurrentReconciles {
		workers.Go(p.work)
	}
	<-ctx.Done()
	logger.Info("Shutdown signal received, waiting for all workers to finish")
	workers.Wait()
	logger.Info("All workers finished")
	return nil
}

// workerPool is the state shared by the workers of a running controller.
type workerPool[request comparable] struct {
	*controller[request]
	ctx      context.Context
	queue    queue.View[request]
	metrics  *counters
	logger   logr.Logger
	hotLoops *hotLoopDetector[request]
	tracer   trace.Tracer // nil if tracing is disabled
	turns    *turns       // nil without InTurn
}

// work reconciles one request after the other until the queue is shut down.
func (p *workerPool[request]) work() {
	report := func(c *reconcileContext[request], took time.Duration, stack string) {
		p.metrics.hung.Inc()
		c.log().Info("Reconcile has been running for long",
			"for", took, "causes", c.causes, "stack", stack)
	}
	w := newWatchdog(p.options.HungAfter, report)
	defer w.stop()
	var observed *observe.Worker
	if p.record != nil {
		observed = p.record.NewWorker()
	}
	for {
		if p.record != nil {
			p.holds.wait(p.ctx)
		}
		turn := p.turns.begin()
		item, shutdown := p.queue.Take()
		if shutdown {
			turn.end()
			return
		}
		if p.record != nil && p.holds.park(item) {
			turn.end()
			p.queue.DoneAt(item.Key, time.Now())
			continue
		}
		p.process(w, observed, item, turn)
	}
}

// process reconciles one request and acts on the outcome. It reads the clock once, at the end of
// the reconcile, and passes that time to the queue; the start is the time at which the queue handed
// out the request.
func (p *workerPool[request]) process(w *watchdog[request], observed *observe.Worker, item queue.Item[request], turn *turn) {
	req, ended := item.Key, item.StartedAt
	defer func() { p.queue.DoneAt(req, ended) }()
	defer turn.end()
	p.metrics.activeWorkers.Inc()
	defer p.metrics.activeWorkers.Dec()

	rc := &reconcileContext[request]{Context: p.ctx, controller: p.controller, req: req, causes: item.Causes, turn: turn}
	if observed != nil {
		rc.run = p.beginRun(observed, item)
	}
	ctx, span := p.startSpan(rc, item.Priority)
	w.begin(rc, item.StartedAt)
	if p.development != nil {
		p.development.Begin(rc)
	}
	result, err := p.Reconcile(ctx, req)
	turn.end()
	w.end()
	took := time.Since(item.StartedAt)
	ended = item.StartedAt.Add(took)
	p.metrics.duration.Observe(took.Seconds())

	o := p.outcomeOf(req, result, err)
	o.count(p.metrics)
	o.log(p.logger, rc.log, item.Causes, result, err)
	if span != nil {
		o.endSpan(span, err)
	}
	if observed != nil {
		observed.End(rc.run, o.observed(took, err), o.failed)
	}
	p.hotLoops.observe(rc, item.StartedAt)
	if p.development != nil {
		p.development.Reconciled(rc, item.StartedAt, !o.requeue && !o.failed)
	}
	if p.reconciles != nil {
		p.reconciles.Reconciled(p.ctx, p.name, req)
	}
	if o.resetBackoff {
		p.queue.Forget(req)
	}
	if o.requeue {
		priority := result.Priority
		if priority == nil {
			priority = ptr.To(item.Priority)
		}
		p.queue.AddWithCause(reconcile.Cause{Kind: o.cause()},
			queue.AddOpts{RateLimited: o.rateLimited, After: o.after, Priority: priority}, req)
	}
}

// outcomeOf returns the outcome of a reconcile. The rate limiter is consulted only for failed ones.
func (p *workerPool[request]) outcomeOf(req request, result reconcile.Result, err error) outcome {
	tries := 0
	if err != nil {
		tries = p.queue.NumRequeues(req)
	}
	return outcomeOf(result, err, tries, p.ctx.Err() != nil)
}

var errReconciliationTimeout = errors.New("reconciliation timeout")

// Reconcile calls the reconciler once. The controller need not be started.
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
