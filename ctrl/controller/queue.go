package controller

import (
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/reconcile"
)

// feedQueue is all that the loop asks of a queue.
type feedQueue[request comparable] interface {
	priorityqueue.PriorityQueue[request]
	priorityqueue.CauseKeeper[request]
}

// complete adds to a queue what it cannot do: priorities and causes are then lost.
func complete[request comparable](q workqueue.TypedRateLimitingInterface[request]) feedQueue[request] {
	if able, ok := q.(feedQueue[request]); ok {
		return able
	}
	p, ok := q.(priorityqueue.PriorityQueue[request])
	if !ok {
		p = unprioritized[request]{q}
	}
	return causeless[request]{p}
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

// causeless makes a CauseKeeper of a queue that keeps none.
type causeless[request comparable] struct {
	priorityqueue.PriorityQueue[request]
}

func (q causeless[request]) AddWithCause(_ reconcile.Cause, o priorityqueue.AddOpts, item request) {
	q.AddWithOpts(o, item)
}

func (q causeless[request]) GetWithCauses() (request, int, reconcile.Causes, bool) {
	item, priority, shutdown := q.GetWithPriority()
	return item, priority, reconcile.Causes{}, shutdown
}
