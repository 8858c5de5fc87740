// Package handler turns events into requests on a controller's queue.
//
// EnqueueRequestForObject adds a request for the object of the event, EnqueueRequestForOwner for
// its owners, EnqueueRequestsFromMapFunc those that a function returns, and Funcs calls a function
// for each type of event.
//
// The events of one source are passed to a handler one at a time and in order, on a goroutine of
// that source; a slow handler delays its own source only. Handlers must not modify the objects. If
// the queue is a priority queue, requests from the initial list or from a resync, where nothing
// changed, get LowPriority, so that real changes precede them.
package handler

import (
	"context"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/reconcile"
)

// TypedEventHandler adds to the queue the requests that an event requires. The queue deduplicates
// them.
type TypedEventHandler[object any, request comparable] interface {
	// Create is called when an object was created or is in the initial list.
	Create(context.Context, event.TypedCreateEvent[object], workqueue.TypedRateLimitingInterface[request])
	// Update is called when an object was updated, and at every resync.
	Update(context.Context, event.TypedUpdateEvent[object], workqueue.TypedRateLimitingInterface[request])
	// Delete is called when an object was deleted.
	Delete(context.Context, event.TypedDeleteEvent[object], workqueue.TypedRateLimitingInterface[request])
	// Generic is called for events from outside the cluster.
	Generic(context.Context, event.TypedGenericEvent[object], workqueue.TypedRateLimitingInterface[request])
}

// EventHandler is a TypedEventHandler of any object and the usual requests.
type EventHandler = TypedEventHandler[client.Object, reconcile.Request]

// TypedFuncs is a TypedEventHandler made of functions. Events without a function are ignored.
// The queue that is passed to a function applies LowPriority.
type TypedFuncs[object any, request comparable] struct {
	CreateFunc  func(context.Context, event.TypedCreateEvent[object], workqueue.TypedRateLimitingInterface[request])
	UpdateFunc  func(context.Context, event.TypedUpdateEvent[object], workqueue.TypedRateLimitingInterface[request])
	DeleteFunc  func(context.Context, event.TypedDeleteEvent[object], workqueue.TypedRateLimitingInterface[request])
	GenericFunc func(context.Context, event.TypedGenericEvent[object], workqueue.TypedRateLimitingInterface[request])
}

// Funcs is a TypedFuncs of any object and the usual requests.
type Funcs = TypedFuncs[client.Object, reconcile.Request]

// Create calls CreateFunc.
func (h TypedFuncs[object, request]) Create(
	ctx context.Context,
	e event.TypedCreateEvent[object],
	q workqueue.TypedRateLimitingInterface[request],
) {
	if h.CreateFunc != nil {
		h.CreateFunc(ctx, e, prioritized(q, e.IsInInitialList))
	}
}

// Update calls UpdateFunc.
func (h TypedFuncs[object, request]) Update(
	ctx context.Context,
	e event.TypedUpdateEvent[object],
	q workqueue.TypedRateLimitingInterface[request],
) {
	if h.UpdateFunc != nil {
		h.UpdateFunc(ctx, e, prioritized(q, unchanged(e)))
	}
}

// Delete calls DeleteFunc.
func (h TypedFuncs[object, request]) Delete(
	ctx context.Context,
	e event.TypedDeleteEvent[object],
	q workqueue.TypedRateLimitingInterface[request],
) {
	if h.DeleteFunc != nil {
		h.DeleteFunc(ctx, e, q)
	}
}

// Generic calls GenericFunc.
func (h TypedFuncs[object, request]) Generic(
	ctx context.Context,
	e event.TypedGenericEvent[object],
	q workqueue.TypedRateLimitingInterface[request],
) {
	if h.GenericFunc != nil {
		h.GenericFunc(ctx, e, q)
	}
}
