package storage

import (
	"context"
	"fmt"
)

// ErrReset is an ErrCompacted of a [Resetter] that was reset since it was at the revision.
var ErrReset = fmt.Errorf("%w: the store was reset", ErrCompacted)

// Resetter is a [Store] that can return to an earlier state.
type Resetter interface {
	Store

	// Checkpoint makes the present state the one that Reset returns to.
	//
	// Possible errors: ErrClosed.
	Checkpoint() error

	// Reset returns to the state of the last Checkpoint. It takes time for the records of that state
	// that were replaced or deleted since, and not for all others. These get new revisions, as if they
	// were written again; the others keep theirs. The latest revision rises, and everything before it is
	// compacted, so watchers get ErrReset.
	//
	// Possible errors: ErrNoCheckpoint, ErrClosed.
	Reset() error
}

// fenceKey is the key of WithFence's channel in a context.
type fenceKey struct{}

// WithFence returns a context whose writes to a [Resetter] fail with ErrFenced, and whose watches with
// ErrReset, when done is closed. Contexts that are derived from it, also by
// [context.WithoutCancel], are the same in that.
func WithFence(ctx context.Context, done <-chan struct{}) context.Context {
	return context.WithValue(ctx, fenceKey{}, done)
}

// Fenced reports whether writes with a context fail.
func Fenced(ctx context.Context) bool {
	done, ok := ctx.Value(fenceKey{}).(<-chan struct{})
	if !ok {
		return false
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}
