// Package overlay is the seam through which a client tells a cache what it has
// just written, so that reads from the cache include the process's own writes
// before the watch brings them back.
package overlay

import (
	"context"
	"reflect"

	"flyball.dev/ctrl/cache/cacheapi"
)

// Writes takes note of successful writes. A cache implements it; a client whose
// reader implements it calls it after each write, before the write returns to
// its caller.
//
// Which method it calls depends on what is certain from the server's answer; a
// client never guesses. Objects belong to the caller and must be copied if they are
// kept. They are typed, unstructured or metadata only. Typed ones may have no kind
// set. The methods make no requests and are safe for concurrent use.
type Writes interface {
	// Wrote reports an answer that holds the object as it was after the write, in
	// the form in which it was written. The object is still there, but may be
	// waiting for its finalizers or its grace period.
	Wrote(ctx context.Context, obj cacheapi.Object)

	// Changed reports that the object was changed, perhaps deleted, by a write
	// whose answer does not hold it. Of obj only the kind, namespace and name are
	// sure; the resource version is that of the object after the write, or empty if
	// it is not known.
	Changed(ctx context.Context, obj cacheapi.Object)

	// Deleted reports that the object of obj's UID is gone. Of obj only the kind,
	// namespace, name and UID are sure; the resource version is one that this very
	// object had, before the deletion or by it, or empty if none is known.
	Deleted(ctx context.Context, obj cacheapi.Object)

	// Deleting reports that the deletion of the object of obj's UID was accepted,
	// but not whether it is gone or waits for its finalizers or its grace period.
	// The resource version is one that the object had before, or empty if none is
	// known, as is the UID.
	Deleting(ctx context.Context, obj cacheapi.Object)
}

// Find returns the Writes that a reader is, or that it embeds in a struct, or nil. A
// program that wraps a cache usually embeds it, as an interface that says nothing of
// Writes.
func Find(reader any) Writes {
	if w, ok := reader.(Writes); ok {
		return w
	}
	return embedded(reflect.ValueOf(reader), 0)
}

// deepest is how many structs may be embedded in each other.
const deepest = 8

func embedded(v reflect.Value, depth int) Writes {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.CanInterface() && !v.IsNil() {
			if w, ok := v.Interface().(Writes); ok {
				return w
			}
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || depth == deepest {
		return nil
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous {
			if w := embedded(v.Field(i), depth+1); w != nil {
				return w
			}
		}
	}
	return nil
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
