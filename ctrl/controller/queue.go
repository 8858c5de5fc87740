package controller

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/reconcile"
)

// viewOf returns q as the workers use it. What a queue from NewQueue does not implement is left
// out: times, causes, priorities.
func viewOf[request comparable](q workqueue.TypedRateLimitingInterface[request]) queue.View[request] {
	if view, ok := q.(queue.View[request]); ok {
		return view
	}
	a := queueAdapter[request]{TypedRateLimitingInterface: q}
	a.priorities, _ = q.(queue.PriorityQueue[request])
	a.recorder, _ = q.(queue.CauseRecorder[request])
	return a
}

// queueAdapter makes a queue.View of any rate limiting queue.
type queueAdapter[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]
	priorities queue.PriorityQueue[request] // nil if it has none
	recorder   queue.CauseRecorder[request] // nil if it records none
}

var _ queue.View[string] = queueAdapter[string]{}

func (q queueAdapter[request]) Take() (item queue.Item[request], shutdown bool) {
	switch {
	case q.recorder != nil:
		item.Key, item.Priority, item.Causes, shutdown = q.recorder.GetWithCauses()
	case q.priorities != nil:
		item.Key, item.Priority, shutdown = q.priorities.GetWithPriority()
	default:
		item.Key, shutdown = q.Get()
	}
	item.StartedAt = time.Now()
	return item, shutdown
}

func (q queueAdapter[request]) DoneAt(req request, _ time.Time) { q.Done(req) }

func (q queueAdapter[request]) AddWithCause(c reconcile.Cause, o queue.AddOpts, req request) {
	switch {
	case q.recorder != nil:
		q.recorder.AddWithCause(c, o, req)
	case q.priorities != nil:
		q.priorities.AddWithOpts(o, req)
	case o.RateLimited:
		q.AddRateLimited(req)
	case o.After > 0:
		q.AddAfter(req, o.After)
	default:
		q.Add(req)
	}
}
