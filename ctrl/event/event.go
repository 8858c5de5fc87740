// Package event has the events that sources pass to handlers: an object was created, updated or
// deleted, or an event outside the cluster concerns it.
//
// Objects in events are shared with the cache and with other handlers, and must not be modified.
package event

import "flyball.dev/ctrl/client"

// TypedCreateEvent is the event of an object that was created, is in the initial list, or began to
// match the cache's selector.
type TypedCreateEvent[object any] struct {
	Object object

	// IsInInitialList is true if the object is in the initial list.
	IsInInitialList bool
}

// TypedUpdateEvent is the event of an object that was updated. Several updates may be coalesced
// into one event. In a periodic resync, both objects are the same.
type TypedUpdateEvent[object any] struct {
	// ObjectOld is the object as it was in the last event of the object that was passed to the
	// handler, even if a predicate filtered that event out.
	ObjectOld object

	// ObjectNew is the object as it is now.
	ObjectNew object
}

// TypedDeleteEvent is the event of an object that was deleted, or no longer matches the cache's
// selector.
type TypedDeleteEvent[object any] struct {
	// Object is the object's last known state.
	Object object

	// DeleteStateUnknown is true if the deletion itself was missed, so that
	// Object may be older than the state in which it was deleted.
	DeleteStateUnknown bool
}

// TypedGenericEvent is an event from outside the cluster that concerns an object.
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
