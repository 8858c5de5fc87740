package queue

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/internal/cause"
)

// This file holds the contracts between controllers, sources and handlers on one side and queues on
// the other. Package priorityqueue has the public ones under the same names, and documents them.

// AddOpts are the options of an addition.
type AddOpts struct {
	// After is the delay before the keys become ready. Zero means none.
	After time.Duration
	// RateLimited takes the delay from the rate limiter. With After, the shorter of both counts.
	RateLimited bool
	// Priority is the keys' priority, higher before lower. Nil means 0.
	Priority *int
}

// PriorityQueue is a rate limiting queue with priorities.
type PriorityQueue[T comparable] interface {
	workqueue.TypedRateLimitingInterface[T]

	// AddWithOpts adds every one of Items with the same options.
	AddWithOpts(o AddOpts, Items ...T)

	// GetWithPriority is Get that also returns the priority of the key.
	GetWithPriority() (item T, priority int, shutdown bool)
}

// CauseRecorder is a queue that records why a key was added.
type CauseRecorder[T comparable] interface {
	// AddWithCause is AddWithOpts for one key, with the cause.
	AddWithCause(c cause.Cause, o AddOpts, item T)

	// GetWithCauses is GetWithPriority that also returns the causes recorded since the key was last
	// handed out.
	GetWithCauses() (item T, priority int, causes cause.Causes, shutdown bool)
}

// DiffRecorder is a queue that records the fields that an update changed, for selected keys.
type DiffRecorder[T comparable] interface {
	// SetDiffFilter sets the function that selects those keys. Nil, which is the default, selects
	// none. The function must be safe for concurrent use.
	SetDiffFilter(filter func(T) bool)

	// DiffFilter returns that function; nil if there is none.
	DiffFilter() func(T) bool
}

// View is the part of a queue that the workers of a controller use.
type View[T comparable] interface {
	// Take is Get that returns all that is known about the key.
	Take() (item Item[T], shutdown bool)
	// DoneAt is Done with the present time.
	DoneAt(key T, now time.Time)
	// AddWithCause adds a key with the cause.
	AddWithCause(c cause.Cause, o AddOpts, key T)
	// Forget resets the backoff of a key.
	Forget(key T)
	// NumRequeues is the number of rate limited additions since the last Forget.
	NumRequeues(key T) int
}
