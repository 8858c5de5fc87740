package handler

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/queue"
)

// LowPriority is the priority of requests from the initial list or from a resync.
const LowPriority = -100

// WithLowPriorityWhenUnchanged returns a handler that does what u does, but gives its requests
// LowPriority when the event comes from the initial list or from a resync, unless u sets a
// priority. It has an effect only on a priorityqueue.PriorityQueue.
func WithLowPriorityWhenUnchanged[object client.Object, request comparable](
	u TypedEventHandler[object, request],
) TypedEventHandler[object, request] {
	return TypedFuncs[object, request]{
		CreateFunc:  u.Create,
		UpdateFunc:  u.Update,
		DeleteFunc:  u.Delete,
		GenericFunc: u.Generic,
	}
}

// unchanged reports whether an update event has no change, as at a resync.
func unchanged[object any](e event.TypedUpdateEvent[object]) bool {
	return cause.OfUpdate(e.ObjectOld, e.ObjectNew) == cause.Resync
}

// lowered returns q or, if low is set, a view of it that adds with LowPriority.
func lowered[request comparable](
	q workqueue.TypedRateLimitingInterface[request], low bool,
) workqueue.TypedRateLimitingInterface[request] {
	if low {
		return prioritized(q, low)
	}
	return q
}

// prioritized returns a view of q that adds with LowPriority if low is set, and otherwise without a
// priority, unless the caller sets one. Every addition becomes an AddWithOpts of q, the method that
// every priority queue, such as the fake of a test, implements. A queue without priorities is
// returned as it is.
func prioritized[request comparable](
	q workqueue.TypedRateLimitingInterface[request], low bool,
) workqueue.TypedRateLimitingInterface[request] {
	pq, ok := q.(queue.PriorityQueue[request])
	if !ok {
		return q
	}
	view := defaultPriority[request]{PriorityQueue: pq}
	if low {
		view.priority = new(LowPriority)
	}
	return view
}

// defaultPriority is a view of a queue with a default priority.
type defaultPriority[request comparable] struct {
	queue.PriorityQueue[request]
	priority *int
}

func (q defaultPriority[request]) Add(item request) {
	q.AddWithOpts(queue.AddOpts{}, item)
}

func (q defaultPriority[request]) AddAfter(item request, after time.Duration) {
	q.AddWithOpts(queue.AddOpts{After: after}, item)
}

func (q defaultPriority[request]) AddRateLimited(item request) {
	q.AddWithOpts(queue.AddOpts{RateLimited: true}, item)
}

func (q defaultPriority[request]) AddWithOpts(o queue.AddOpts, items ...request) {
	if o.Priority == nil {
		o.Priority = q.priority
	}
	q.PriorityQueue.AddWithOpts(o, items...)
}
