package handler

import (
	"context"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/reconcile"
)

// TypedMapFunc returns the requests that an event of an object requires. It must not modify the
// object, and is called on the goroutine of the source.
type TypedMapFunc[object any, request comparable] func(context.Context, object) []request

// MapFunc is a TypedMapFunc of any object and the usual requests.
type MapFunc = TypedMapFunc[client.Object, reconcile.Request]

// EnqueueRequestsFromMapFunc adds the requests that fn returns for the event's object. For an
// update, fn is called with the old object and with the new one, so that what the object no longer
// refers to is reconciled too.
//
//go:noinline because the packages that call it would instantiate the handler
func EnqueueRequestsFromMapFunc(fn MapFunc) EventHandler {
	return TypedEnqueueRequestsFromMapFunc(fn)
}

// TypedEnqueueRequestsFromMapFunc is EnqueueRequestsFromMapFunc for objects and requests of any
// type.
func TypedEnqueueRequestsFromMapFunc[object any, request comparable](
	fn TypedMapFunc[object, request],
) TypedEventHandler[object, request] {
	return mapped[object, request](fn)
}

// mapped is the handler of a map function.
type mapped[object any, request comparable] TypedMapFunc[object, request]

func (fn mapped[object, request]) Create(
	ctx context.Context,
	e event.TypedCreateEvent[object],
	q workqueue.TypedRateLimitingInterface[request],
) {
	fn.enqueue(ctx, lowered(q, e.IsInInitialList), e.Object)
}

func (fn mapped[object, request]) Update(
	ctx context.Context,
	e event.TypedUpdateEvent[object],
	q workqueue.TypedRateLimitingInterface[request],
) {
	fn.enqueue(ctx, lowered(q, unchanged(e)), e.ObjectOld, e.ObjectNew)
}

func (fn mapped[object, request]) Delete(
	ctx context.Context,
	e event.TypedDeleteEvent[object],
	q workqueue.TypedRateLimitingInterface[request],
) {
	fn.enqueue(ctx, q, e.Object)
}

func (fn mapped[object, request]) Generic(
	ctx context.Context,
	e event.TypedGenericEvent[object],
	q workqueue.TypedRateLimitingInterface[request],
) {
	fn.enqueue(ctx, q, e.Object)
}

// enqueue adds each request once per event, since rate limiters and metrics count every addition.
func (fn mapped[object, request]) enqueue(
	ctx context.Context, q workqueue.TypedRateLimitingInterface[request], objs ...object,
) {
	var seen map[request]struct{} // most events require none
	for _, obj := range objs {
		for _, req := range fn(ctx, obj) {
			if _, ok := seen[req]; !ok {
				if seen == nil {
					seen = map[request]struct{}{}
				}
				seen[req] = struct{}{}
				q.Add(req)
			}
		}
	}
}
