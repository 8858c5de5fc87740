package handler

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/event"
)

// LowPriority is the priority of requests that stem from the initial list or
// from a resync.
const LowPriority = -100

// WithLowPriorityWhenUnchanged returns a handler that does what u does, but
// whose requests get LowPriority when the event comes from the initial list or
// from a resync, unless u sets a priority itself. It has an effect only on a
// priorityqueue.PriorityQueue.
func WithLowPriorityWhenUnchanged[object client.Object, request comparable](u TypedEventHandler[object, request]) TypedEventHandler[object, request] {
	return TypedFuncs[object, request]{
		CreateFunc:  u.Create,
		UpdateFunc:  u.Update,
		DeleteFunc:  u.Delete,
		GenericFunc: u.Generic,
	}
}

// unchanged tells whether an update event carries no change, as at a resync.
func unchanged[object any](e event.TypedUpdateEvent[object]) bool {
	before, ok := any(e.ObjectOld).(client.Object)
	if !ok || isNil(before) {
		return false
	}
	after, ok := any(e.ObjectNew).(client.Object)
	return ok && !isNil(after) && before.GetResourceVersion() == after.GetResourceVersion()
}

// withPriority returns q itself or, if low is set and q knows priorities, a
// view of it through which everything is added with LowPriority.
func withPriority[request comparable](q workqueue.TypedRateLimitingInterface[request], low bool) workqueue.TypedRateLimitingInterface[request] {
	if !low {
		return q
	}
	pq, ok := q.(priorityqueue.PriorityQueue[request])
	if !ok {
		return q
	}
	return lowPriority[request]{pq}
}

type lowPriority[request comparable] struct {
	priorityqueue.PriorityQueue[request]
}

func (q lowPriority[request]) Add(item request) {
	q.AddWithOpts(priorityqueue.AddOpts{}, item)
}

func (q lowPriority[request]) AddAfter(item request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, item)
}

func (q lowPriority[request]) AddRateLimited(item request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, item)
}

func (q lowPriority[request]) AddWithOpts(o priorityqueue.AddOpts, items ...request) {
	if o.Priority == nil {
		o.Priority = new(LowPriority)
	}
	q.PriorityQueue.AddWithOpts(o, items...)
}
