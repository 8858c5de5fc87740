package controller

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/reconcile"
)

// line is all that the workers ask of a queue.
type line[request comparable] interface {
	Take() (t queue.Ticket[request], shutdown bool)
	DoneAt(req request, now time.Time)
	AddWithCause(why reconcile.Cause, o priorityqueue.AddOpts, req request)
	Forget(req request)
	NumRequeues(req request) int
}

// lineOf makes up for what a queue cannot do: times, causes, priorities.
func lineOf[request comparable](q workqueue.TypedRateLimitingInterface[request]) line[request] {
	if able, ok := q.(line[request]); ok {
		return able
	}
	f := foreign[request]{TypedRateLimitingInterface: q}
	f.priorities, _ = q.(priorityqueue.PriorityQueue[request])
	f.causes, _ = q.(priorityqueue.CauseKeeper[request])
	return f
}

// foreign is a queue that somebody else made.
type foreign[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]
	priorities priorityqueue.PriorityQueue[request] // nil if it has none
	causes     priorityqueue.CauseKeeper[request]   // nil if it keeps none
}

func (q foreign[request]) Take() (t queue.Ticket[request], shutdown bool) {
	switch {
	case q.causes != nil:
		t.Key, t.Priority, t.Causes, shutdown = q.causes.GetWithCauses()
	case q.priorities != nil:
		t.Key, t.Priority, shutdown = q.priorities.GetWithPriority()
	default:
		t.Key, shutdown = q.Get()
	}
	t.Began = time.Now()
	return t, shutdown
}

func (q foreign[request]) DoneAt(req request, _ time.Time) { q.Done(req) }

func (q foreign[request]) AddWithCause(why reconcile.Cause, o priorityqueue.AddOpts, req request) {
	switch {
	case q.causes != nil:
		q.causes.AddWithCause(why, o, req)
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
