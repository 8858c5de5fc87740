package source

import (
	"context"
	"fmt"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/optional"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/predicate"
)

// delivery passes the notifications of an informer that pass all predicates to a handler.
type delivery[object any, request comparable] struct {
	ctx       context.Context
	queue     workqueue.TypedRateLimitingInterface[request]
	handler   handler.TypedEventHandler[object, request]
	predicate predicate.TypedPredicate[object]
	// gvk is the kind of the objects, if the informer has a method that returns it: typed objects
	// do not carry it.
	gvk schema.GroupVersionKind

	// informer and registration are set by subscribe.
	informer     cache.Informer
	registration toolscache.ResourceEventHandlerRegistration
}

// isNil reports whether a predicate is nil.
func isNil[object any](p predicate.TypedPredicate[object]) bool { return reflectutil.IsNil(p) }

func newDelivery[object any, request comparable](
	ctx context.Context,
	queue workqueue.TypedRateLimitingInterface[request],
	informer cache.Informer,
	handler handler.TypedEventHandler[object, request],
	predicates []predicate.TypedPredicate[object],
) *delivery[object, request] {
	d := &delivery[object, request]{
		ctx: ctx, queue: queue, handler: handler, predicate: predicate.And(predicates...),
	}
	if i, ok := informer.(optional.KindHolder); ok {
		d.gvk = i.GroupVersionKind()
	}
	return d
}

// subscribe adds the handler to an informer and removes it when ctx is done, since the cache may
// outlive the controller.
func (d *delivery[object, request]) subscribe(ctx context.Context, informer cache.Informer) error {
	registration, err := informer.AddEventHandlerWithOptions(d, toolscache.HandlerOptions{})
	if err != nil {
		return err
	}
	d.informer, d.registration = informer, registration
	// The controller may outlive the cache too: it keeps no informer that has ended. As long as an
	// informer exists, it keeps its handlers, and d is one.
	subscribed := weak.Make(d)
	context.AfterFunc(ctx, func() {
		if d := subscribed.Value(); d != nil {
			// The only error is that the informer has ended, and the handler with it.
			_ = d.informer.RemoveEventHandler(d.registration)
		}
	})
	return nil
}

func (d *delivery[object, request]) OnAdd(obj any, isInInitialList bool) {
	o, ok := as[object](obj)
	if !ok {
		return
	}
	e := event.TypedCreateEvent[object]{Object: o, IsInInitialList: isInInitialList}
	if !d.predicate.Create(e) {
		return
	}
	kind := cause.Created
	if isInInitialList {
		kind = cause.Listed
	}
	d.handler.Create(d.ctx, e, withCause(d.queue, kind, &d.gvk, o, o))
}

func (d *delivery[object, request]) OnUpdate(oldObj, newObj any) {
	before, ok := as[object](oldObj)
	if !ok {
		return
	}
	after, ok := as[object](newObj)
	if !ok {
		return
	}
	e := event.TypedUpdateEvent[object]{ObjectOld: before, ObjectNew: after}
	if !d.predicate.Update(e) {
		return
	}
	d.handler.Update(d.ctx, e, withCause(d.queue, cause.OfUpdate(before, after), &d.gvk, before, after))
}

func (d *delivery[object, request]) OnDelete(obj any) {
	tombstone, unknown := obj.(toolscache.DeletedFinalStateUnknown)
	if unknown {
		obj = tombstone.Obj
	}
	o, ok := as[object](obj)
	if !ok {
		return
	}
	e := event.TypedDeleteEvent[object]{Object: o, DeleteStateUnknown: unknown}
	if !d.predicate.Delete(e) {
		return
	}
	d.handler.Delete(d.ctx, e, withCause(d.queue, cause.Deleted, &d.gvk, o, o))
}

// as converts obj to the type of the handler. It logs an error if that is another type, which is a
// mistake in the setup of the source, such as an informer of another kind.
func as[object any](obj any) (object, bool) {
	o, ok := obj.(object)
	if !ok {
		log.Current().WithName("source").Error(nil, "informer and handler have different types of objects",
			"got", fmt.Sprintf("%T", obj), "want", fmt.Sprintf("%T", *new(object)))
	}
	return o, ok
}
