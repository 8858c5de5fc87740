package handler

import (
	"context"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/reconcile"
)

// TypedEnqueueRequestForObject adds a request for the object of the event.
type TypedEnqueueRequestForObject[object client.Object] struct{}

// EnqueueRequestForObject is a TypedEnqueueRequestForObject of any object.
type EnqueueRequestForObject = TypedEnqueueRequestForObject[client.Object]

var _ EventHandler = &EnqueueRequestForObject{}

// Create adds a request for the object.
func (*TypedEnqueueRequestForObject[T]) Create(
	_ context.Context,
	e event.TypedCreateEvent[T],
	q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	enqueue(lowered(q, e.IsInInitialList), e.Object)
}

// Update adds a request for the object.
func (*TypedEnqueueRequestForObject[T]) Update(
	_ context.Context,
	e event.TypedUpdateEvent[T],
	q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	obj := e.ObjectNew
	if reflectutil.IsNil(obj) {
		obj = e.ObjectOld
	}
	enqueue(lowered(q, unchanged(e)), obj)
}

// Delete adds a request for the object.
func (*TypedEnqueueRequestForObject[T]) Delete(
	_ context.Context,
	e event.TypedDeleteEvent[T],
	q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	enqueue(q, e.Object)
}

// Generic adds a request for the object.
func (*TypedEnqueueRequestForObject[T]) Generic(
	_ context.Context,
	e event.TypedGenericEvent[T],
	q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	enqueue(q, e.Object)
}

func enqueue[T client.Object](q workqueue.TypedRateLimitingInterface[reconcile.Request], obj T) {
	if reflectutil.IsNil(obj) {
		log.Current().WithName("handler").Error(nil, "event without an object")
		return
	}
	q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
}
