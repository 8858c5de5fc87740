// Package overlay is the interface through which a client reports its writes to a
// cache, so that reads from the cache include the process's own writes before the
// watch delivers them.
package overlay

import (
	"context"
	"reflect"

	"flyball.dev/ctrl/cache/cacheapi"
)

// Writes is notified of successful writes. A cache implements it. If the reader of a
// client implements it, the client calls it after each write, before the write returns
// to its caller.
//
// The response determines which method the client calls. Objects belong to the caller and must be
// copied if they are stored. They are typed, unstructured or metadata-only. Typed ones may have no
// kind set. The methods make no requests and are safe for concurrent use.
type Writes interface {
	// Wrote reports a response with the object after the write, in the representation in which it
	// was written. The object exists, but may be terminating.
	Wrote(ctx context.Context, obj cacheapi.Object)

	// Invalidate reports that a write changed the object, or perhaps deleted it, and that the
	// response does not contain it. Only the kind, namespace and name of obj are set, and
	// the resource version after the write if it is known.
	Invalidate(ctx context.Context, obj cacheapi.Object)

	// Deleted reports that the object with obj's UID no longer exists. Only the kind,
	// namespace, name and UID of obj need be set, and a resource version that the object
	// had before or by its deletion, if one is known.
	Deleted(ctx context.Context, obj cacheapi.Object)

	// Deleting reports that the deletion of the object with obj's UID was accepted, and
	// that the object is now either terminating or deleted. The UID, and a resource version
	// that the object had before, are set if they are known.
	Deleting(ctx context.Context, obj cacheapi.Object)
}

// Find returns the Writes that a reader implements, or that a struct which it is embeds,
// or nil. A program that wraps a cache usually embeds it as a cache.Cache, which does not
// have the methods of Writes.
func Find(reader any) Writes {
	if w, ok := reader.(Writes); ok {
		return w
	}
	return embedded(reflect.ValueOf(reader), 0)
}

// maxDepth bounds the depth of embedding that Find searches.
const maxDepth = 8

func embedded(v reflect.Value, depth int) Writes {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.CanInterface() && !v.IsNil() {
			if w, ok := v.Interface().(Writes); ok {
				return w
			}
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || depth == maxDepth {
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

// Observer is notified of the successful writes that are made with the context it is in. Its method
// must not keep the object.
type Observer interface {
	ObserveWrite(obj cacheapi.Object)
}

// ObserverKey is the context key of the Observer.
type ObserverKey struct{}

// Observed reports whether ctx has an Observer.
func Observed(ctx context.Context) bool {
	_, ok := ctx.Value(ObserverKey{}).(Observer)
	return ok
}

// Observe notifies the observer in ctx, if there is one, that obj was written or deleted.
func Observe(ctx context.Context, obj cacheapi.Object) {
	if o, ok := ctx.Value(ObserverKey{}).(Observer); ok {
		o.ObserveWrite(obj)
	}
}
