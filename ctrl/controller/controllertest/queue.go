// Package controllertest has a queue, an informer and types for tests of sources, handlers and
// controllers.
package controllertest

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/reconcile"
)

// Queue is a TypedQueue of reconcile.Request.
type Queue = TypedQueue[reconcile.Request]

// TypedQueue adds the methods of a rate limiting queue to a plain one. It neither delays nor
// limits: AddAfter and AddRateLimited add at once.
type TypedQueue[request comparable] struct {
	workqueue.TypedInterface[request]

	// AddedRateLimitedLock guards AddedRatelimited.
	AddedRateLimitedLock sync.Mutex
	// AddedRatelimited are the arguments of AddRateLimited, in order.
	AddedRatelimited []any
}

var _ workqueue.TypedRateLimitingInterface[reconcile.Request] = &Queue{}

// AddAfter adds item at once.
func (q *TypedQueue[request]) AddAfter(item request, _ time.Duration) { q.Add(item) }

// AddRateLimited records item in AddedRatelimited and adds it at once.
func (q *TypedQueue[request]) AddRateLimited(item request) {
	q.AddedRateLimitedLock.Lock()
	q.AddedRatelimited = append(q.AddedRatelimited, item)
	q.AddedRateLimitedLock.Unlock()
	q.Add(item)
}

// Forget does nothing.
func (q *TypedQueue[request]) Forget(request) {}

// NumRequeues returns 0.
func (q *TypedQueue[request]) NumRequeues(request) int { return 0 }
