// Package optional has the optional interfaces that the packages of ctrl ask each other's values for. A user may replace
// a cache, an informer or a source by one without them. A type that implements one says so in its package:
// var _ optional.Flusher = (*kind)(nil).
package optional

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/cache/cacheapi"
)

// SyncWaiter is an informer that can be waited for.
type SyncWaiter interface {
	// WaitForSync waits until the informer has synced. It returns false if ctx is done, or the informer has ended,
	// before that.
	WaitForSync(ctx context.Context) bool
}

// KindHolder is an informer that knows the kind of its objects.
type KindHolder interface {
	GroupVersionKind() schema.GroupVersionKind
}

// Deliverer is a cache that WaitIdle of package manager waits for.
type Deliverer interface {
	// WaitDelivered waits until the events of all writes before the call were delivered.
	WaitDelivered(ctx context.Context) error
}

// InformerObserver is a cache that reports its informers.
type InformerObserver interface {
	// OnInformer calls f with each informer that the cache starts.
	OnInformer(f func(schema.GroupVersionKind, cacheapi.Informer))
}

// EachChange is an event handler that wants each change of an object. Changes for other handlers coalesce while the handler
// has not been called.
type EachChange interface {
	WantsEachChange()
}

// Flusher is a source that can wait until it has delivered its events.
type Flusher interface {
	Flush(ctx context.Context) error
}

// IdleWaiter is a controller that WaitIdle of package manager waits for. R is manager.WaitingRequest, which this package
// cannot import.
type IdleWaiter[R any] interface {
	// WaitIdle waits until the controller has no request that is ready or in process. adds rises with each request
	// that becomes ready.
	WaitIdle(ctx context.Context) (adds uint64, waiting []R, err error)
}

// Warmer is a runnable with a part that runs before this replica leads.
type Warmer interface {
	// Warmup must return when ctx ends.
	Warmup(ctx context.Context) error
}
