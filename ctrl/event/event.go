// Package event holds what a source tells a handler: an object was created,
// updated or deleted, or something about it is worth a look.
//
// Objects in events are shared with the cache and with other handlers: read
// them, never change them.
package event

import "flyball.dev/ctrl/client"

// TypedCreateEvent says that an object came into view: it was created, it was
// there when watching began, or it began to match the cache's selector.
type TypedCreateEvent[object any] struct {
	Object object

	// IsInInitialList is true if the object was there when watching began.
	IsInInitialList bool
}

// TypedUpdateEvent says that an object changed. Several changes may have been
// merged into one event. A periodic resync sends the same object as both.
type TypedUpdateEvent[object any] struct {
	// ObjectOld is the object as the handler last heard of it.
	ObjectOld object

	// ObjectNew is the object as it is now.
	ObjectNew object
}

// TypedDeleteEvent says that an object went out of view: it was deleted or no
// longer matches the cache's selector.
type TypedDeleteEvent[object any] struct {
	// Object is the object's last known state.
	Object object

	// DeleteStateUnknown is true if the deletion itself was missed, so that
	// Object may be older than the state in which it was deleted.
	DeleteStateUnknown bool
}

// TypedGenericEvent says that an object deserves a look, for a reason that lies
// outside the cluster.
type TypedGenericEvent[object any] struct {
	Object object
}

// CreateEvent is a TypedCreateEvent of any object.
type CreateEvent = TypedCreateEvent[client.Object]

// UpdateEvent is a TypedUpdateEvent of any object.
type UpdateEvent = TypedUpdateEvent[client.Object]

// DeleteEvent is a TypedDeleteEvent of any object.
type DeleteEvent = TypedDeleteEvent[client.Object]

// GenericEvent is a TypedGenericEvent of any object.
type GenericEvent = TypedGenericEvent[client.Object]
