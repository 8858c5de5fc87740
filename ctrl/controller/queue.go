package controller

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/reconcile"
)

// queueView is all that the workers ask of a queue.
type queueView[request comparable] interface {
	Take() (t queue.Item[request], shutdown bool)
	DoneAt(req request, now time.Time)
	AddWithCause(why reconcile.Cause, o priorityqueue.AddOpts, req request)
	Forget(req request)
	NumRequeues(req request) int
}

// viewOf makes up for what a queue cannot do: times, causes, priorities.
func viewOf[request comparable](q workqueue.TypedRateLimitingInterface[request]) queueView[request] {
	if able, ok := q.(queueView[request]); ok {
		return able
	}
	f := queueAdapter[request]{TypedRateLimitingInterface: q}
	f.priorities, _ = q.(priorityqueue.PriorityQueue[request])
	f.recorder, _ = q.(priorityqueue.CauseRecorder[request])
	return f
}

// queueAdapter is a queue that somebody else made.
type queueAdapter[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]
	priorities priorityqueue.PriorityQueue[request] // nil if it has none
	recorder   priorityqueue.CauseRecorder[request] // nil if it keeps none
}

func (q queueAdapter[request]) Take() (t queue.Item[request], shutdown bool) {
	switch {
	case q.recorder != nil:
		t.Key, t.Priority, t.Causes, shutdown = q.recorder.GetWithCauses()
	case q.priorities != nil:
		t.Key, t.Priority, shutdown = q.priorities.GetWithPriority()
	default:
		t.Key, shutdown = q.Get()
	}
	t.StartedAt = time.Now()
	return t, shutdown
}

func (q queueAdapter[request]) DoneAt(req request, _ time.Time) { q.Done(req) }

func (q queueAdapter[request]) AddWithCause(why reconcile.Cause, o priorityqueue.AddOpts, req request) {
	switch {
	case q.recorder != nil:
		q.recorder.AddWithCause(why, o, req)
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
