// Package overlay is the seam through which a client tells a cache what it has
// just written, so that reads from the cache include the process's own writes
// before the watch brings them back.
package overlay

import (
	"context"

	"flyball.dev/ctrl/cache/cacheapi"
)

// Writes takes note of successful writes. A cache implements it; a client whose
// reader implements it calls it after each write, before the write returns to
// its caller.
//
// Objects belong to the caller and must be copied if they are kept. They come
// in the form in which they were written: typed, unstructured or metadata only.
// Typed ones may have no kind set. The methods do not block and are safe for
// concurrent use.
type Writes interface {
	// Wrote reports the server's response to a create, update, patch or apply
	// of the object or one of its subresources, and to a delete after which the
	// object is still there, waiting for its finalizers or its grace period.
	Wrote(ctx context.Context, obj cacheapi.Object)

	// Deleted reports that the object is gone. What it is told with may be its
	// metadata only, and of that only the kind, namespace and name are sure: the
	// UID is there if the server told it, and the resource version if the caller
	// held one, from before the deletion or of it.
	Deleted(ctx context.Context, obj cacheapi.Object)
}

// Observer is told of the successful writes that are made with the context it is in. Its method must
// not keep the object.
type Observer interface {
	ObserveWrite(obj cacheapi.Object)
}

// ObserverKey is where a context has its Observer.
type ObserverKey struct{}

// Observe tells the observer in ctx, if there is one, that obj was written, or deleted.
func Observe(ctx context.Context, obj cacheapi.Object) {
	if o, ok := ctx.Value(ObserverKey{}).(Observer); ok {
		o.ObserveWrite(obj)
	}
}
