// Package priorityqueue is the work queue that controllers use: client-go's rate limiting queue,
// with priorities.
//
// A key is processed by one worker at a time. Keys are deduplicated: one that is added while it is
// queued remains one key, with the highest of its priorities and the earliest of its times; one
// that is added while it is being processed is handed out again after Done. Higher priorities go
// first; keys of one priority go in the order in which they became ready. If the priority of a key is
// raised, the key is moved to the end of the higher priority.
//
// There is no starvation: a key that has been queued for longer than Opts.AgingThreshold may
// precede higher priorities, though only one in eight keys does, so that an aged backlog does not
// delay urgent keys. With Opts.Flow the keys of one priority are divided into flows that are
// served round robin (fair queuing), so that the owner of many keys does not delay the owner of
// few.
//
// The queue also records why each key was added; see [CauseRecorder].
package priorityqueue

import (
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/reconcile"
)

// AddOpts are the options of an addition.
type AddOpts = queue.AddOpts

// PriorityQueue is a rate limiting queue with priorities. It is safe for concurrent use.
//
// After ShutDown nothing is handed out, whatever is still queued. ShutDownWithDrain first hands out
// the keys that are ready, and waits until they are done; it drops keys that are still delayed.
type PriorityQueue[T comparable] = queue.PriorityQueue[T]

// CauseRecorder is a queue that records why a key was added, as the one made by [New] does: of each
// key a few causes and their number. It is an addition to what controller-runtime has.
type CauseRecorder[T comparable] = queue.CauseRecorder[T]

// DiffRecorder is a queue. A controller can request from it that the cause of an update includes
// the fields that changed, as of the one made by [New]. Comparing objects is slow, so that is done
// for selected keys only.
type DiffRecorder[T comparable] = queue.DiffRecorder[T]

// What New returns has to have every contract: controllers and sources find them by type assertion.
var _ interface {
	PriorityQueue[string]
	CauseRecorder[string]
	DiffRecorder[string]
	queue.View[string]
} = &priorityQueue[string]{}

// DefaultAgingThreshold is the default of Opts.AgingThreshold.
const DefaultAgingThreshold = 30 * time.Second

// Opts are the options of a queue.
type Opts[T comparable] struct {
	// RateLimiter returns the delay of a rate limited key. The default is 5 ms for each key,
	// doubled with every addition up to 1000 s, until Forget.
	RateLimiter workqueue.TypedRateLimiter[T]
	// MetricProvider creates the metrics of a named queue. By default they are the workqueue_*
	// metrics of metrics.Registry. The gauges of any other provider are set by every operation.
	MetricProvider workqueue.MetricsProvider
	// Log receives, at level 5, the number of ready keys when the queue shuts down.
	Log logr.Logger

	// AgingThreshold is how long a key is queued before it may precede keys of higher priority.
	// DefaultAgingThreshold if zero; a negative value disables aging.
	AgingThreshold time.Duration
	// IgnorePriorities gives all keys priority 0.
	IgnorePriorities bool
	// Flow returns the name of the flow that a key belongs to, such as its namespace. The flows of
	// one priority are served round robin. It is called with the queue's lock held, so it must be
	// quick and must not use the queue. If nil, keys of one priority are handed out in FIFO order.
	Flow func(T) string
}

// Opt sets options.
type Opt[T comparable] func(*Opts[T])

// New returns an empty queue. Its metrics are labelled with the name; a queue without a name has no
// metrics. The caller must shut the queue down.
func New[T comparable](name string, o ...Opt[T]) PriorityQueue[T] {
	opts := Opts[T]{}
	for _, set := range o {
		set(&opts)
	}
	if opts.RateLimiter == nil {
		opts.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second)
	}
	if opts.AgingThreshold == 0 {
		opts.AgingThreshold = DefaultAgingThreshold
	}
	return &priorityQueue[T]{
		Queue: queue.New(queue.Options[T]{
			Metrics:        queue.Metrics{Name: name, Provider: opts.MetricProvider},
			AgingThreshold: opts.AgingThreshold,
			Flow:           opts.Flow,
		}),
		limiter: opts.RateLimiter,
		equal:   opts.IgnorePriorities,
		log:     opts.Log,
	}
}

// priorityQueue is a queue.Queue with a rate limiter.
type priorityQueue[T comparable] struct {
	*queue.Queue[T]
	limiter    workqueue.TypedRateLimiter[T]
	equal      bool
	log        logr.Logger
	diffFilter atomic.Pointer[func(T) bool]
}

func (q *priorityQueue[T]) SetDiffFilter(filter func(T) bool) { q.diffFilter.Store(&filter) }

func (q *priorityQueue[T]) DiffFilter() func(T) bool {
	if filter := q.diffFilter.Load(); filter != nil {
		return *filter
	}
	return nil
}

func (q *priorityQueue[T]) Add(item T) { q.AddOne(0, 0, nil, item) }

func (q *priorityQueue[T]) AddAfter(item T, after time.Duration) { q.AddOne(after, 0, nil, item) }

func (q *priorityQueue[T]) AddRateLimited(item T) {
	q.add(nil, AddOpts{RateLimited: true}, item)
}

func (q *priorityQueue[T]) AddWithOpts(o AddOpts, items ...T) {
	if !o.RateLimited {
		q.Queue.Add(o.After, q.priorityOf(o), nil, items...)
		return
	}
	for _, item := range items {
		q.add(nil, o, item)
	}
}

func (q *priorityQueue[T]) AddWithCause(why reconcile.Cause, o AddOpts, item T) { q.add(&why, o, item) }

func (q *priorityQueue[T]) add(why *reconcile.Cause, o AddOpts, item T) {
	delay := o.After
	if o.RateLimited {
		if q.ShuttingDown() { // every When raises the backoff
			return
		}
		if delay = q.limiter.When(item); o.After > 0 {
			delay = min(delay, o.After)
		}
	}
	q.AddOne(delay, q.priorityOf(o), why, item)
}

func (q *priorityQueue[T]) priorityOf(o AddOpts) int {
	if o.Priority == nil || q.equal {
		return 0
	}
	return *o.Priority
}

func (q *priorityQueue[T]) GetWithPriority() (item T, priority int, shutdown bool) {
	item, priority, _, shutdown = q.Queue.Get()
	return item, priority, shutdown
}

func (q *priorityQueue[T]) GetWithCauses() (item T, priority int, causes reconcile.Causes, shutdown bool) {
	return q.Queue.Get()
}

func (q *priorityQueue[T]) Get() (item T, shutdown bool) {
	item, _, _, shutdown = q.Queue.Get()
	return item, shutdown
}

func (q *priorityQueue[T]) Forget(item T) { q.limiter.Forget(item) }

func (q *priorityQueue[T]) NumRequeues(item T) int { return q.limiter.NumRequeues(item) }

func (q *priorityQueue[T]) ShutDown() {
	if log := q.log.V(5); log.Enabled() {
		log.Info("Shutting down the work queue", "ready", q.Len())
	}
	q.Queue.ShutDown()
}
