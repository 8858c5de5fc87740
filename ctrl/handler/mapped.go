package handler

import (
	"context"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/reconcile"
)

// TypedMapFunc names the requests that an object calls for. It must not change
// the object, and is called on the goroutine that delivers events.
type TypedMapFunc[object any, request comparable] func(context.Context, object) []request

// MapFunc is a TypedMapFunc of any object and the usual requests.
type MapFunc = TypedMapFunc[client.Object, reconcile.Request]

// EnqueueRequestsFromMapFunc asks for what fn makes of the event's object. Of
// an update, fn is asked about the old object and the new one, so that what
// the object no longer points at is looked at too.
func EnqueueRequestsFromMapFunc(fn MapFunc) EventHandler {
	return TypedEnqueueRequestsFromMapFunc(fn)
}

// TypedEnqueueRequestsFromMapFunc is EnqueueRequestsFromMapFunc for objects and
// requests of any type.
func TypedEnqueueRequestsFromMapFunc[object any, request comparable](fn TypedMapFunc[object, request]) TypedEventHandler[object, request] {
	return mapped[object, request](fn)
}

// mapped is the handler that a function makes.
type mapped[object any, request comparable] TypedMapFunc[object, request]

func (fn mapped[object, request]) Create(ctx context.Context, e event.TypedCreateEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	fn.enqueue(ctx, lowered(q, e.IsInInitialList), e.Object)
}

func (fn mapped[object, request]) Update(ctx context.Context, e event.TypedUpdateEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	fn.enqueue(ctx, lowered(q, unchanged(e)), e.ObjectOld, e.ObjectNew)
}

func (fn mapped[object, request]) Delete(ctx context.Context, e event.TypedDeleteEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	fn.enqueue(ctx, q, e.Object)
}

func (fn mapped[object, request]) Generic(ctx context.Context, e event.TypedGenericEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	fn.enqueue(ctx, q, e.Object)
}

// enqueue adds each request once an event, as rate limiters and metrics count every add.
func (fn mapped[object, request]) enqueue(ctx context.Context, q workqueue.TypedRateLimitingInterface[request], objs ...object) {
	seen := map[request]struct{}{}
	for _, obj := range objs {
		for _, req := range fn(ctx, obj) {
			if _, ok := seen[req]; !ok {
				seen[req] = struct{}{}
				q.Add(req)
			}
		}
	}
}
