// Package source has the event sources of controllers: a source calls a handler for every event,
// and the handler adds requests to the queue.
//
// Kind watches the objects of a kind through a cache, Informer uses one informer, Channel receives
// events from a channel, and Func is any function. Each source delivers its events one at a time
// and in order. All goroutines and registrations of a source end with the context of its Start.
package source

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// TypedSource is a source of events for a controller.
type TypedSource[request comparable] interface {
	// Start begins to deliver events and returns at once. It is called by the controller.
	Start(context.Context, workqueue.TypedRateLimitingInterface[request]) error
}

// Source is a TypedSource of the usual requests.
type Source = TypedSource[reconcile.Request]

// TypedSyncingSource is a source with an initial list: it knows when it has delivered all of it.
type TypedSyncingSource[request comparable] interface {
	TypedSource[request]

	// WaitForSync waits until the source is in sync. The controller calls it after Start and before
	// it runs any worker. It returns the error that prevented the sync, an error if ctx's deadline
	// passes, and nil if ctx is cancelled.
	WaitForSync(ctx context.Context) error
}

// SyncingSource is a TypedSyncingSource of the usual requests.
type SyncingSource = TypedSyncingSource[reconcile.Request]

// TypedFunc is a function that is a TypedSource.
type TypedFunc[request comparable] func(context.Context, workqueue.TypedRateLimitingInterface[request]) error

// Func is a function that is a Source.
type Func = TypedFunc[reconcile.Request]

// Start calls the function.
func (f TypedFunc[request]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	return f(ctx, queue)
}

// String names the source in logs.
func (f TypedFunc[request]) String() string {
	return fmt.Sprintf("func source: %p", f)
}

// TypedInformer is a source of the events of one informer. It does not wait for the informer to
// sync.
type TypedInformer[object any, request comparable] struct {
	Informer   cache.Informer
	Handler    handler.TypedEventHandler[object, request]
	Predicates []predicate.TypedPredicate[object]
}

// Informer is a TypedInformer of any object and the usual requests.
type Informer = TypedInformer[client.Object, reconcile.Request]

// Start adds the handler to the informer until ctx is done.
func (s *TypedInformer[object, request]) Start(
	ctx context.Context, queue workqueue.TypedRateLimitingInterface[request],
) error {
	if reflectutil.IsNil(s.Informer) {
		return errors.New("must specify Informer.Informer")
	}
	if reflectutil.IsNil(s.Handler) {
		return errors.New("must specify Informer.Handler")
	}
	if slices.ContainsFunc(s.Predicates, isNil[object]) {
		return errors.New("must specify non-nil Informer.Predicates")
	}
	return newDelivery(ctx, queue, s.Informer, s.Handler, s.Predicates).subscribe(ctx, s.Informer)
}

// String names the source in logs.
func (s *TypedInformer[object, request]) String() string {
	return fmt.Sprintf("informer source: %p", s.Informer)
}
