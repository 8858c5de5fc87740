package storage

import (
	"context"
	"fmt"
)

// ErrReset means that a [Resetter] was reset after the requested revision. It wraps ErrCompacted.
var ErrReset = fmt.Errorf("%w: the store was reset", ErrCompacted)

// Resetter is a [Store] that can return to an earlier state.
type Resetter interface {
	Store

	// Checkpoint saves the current state for Reset.
	//
	// Possible errors: ErrClosed.
	Checkpoint() error

	// Reset returns to the state of the last Checkpoint. Reset takes time proportional to the number of records that
	// were written since, not to the size of the store. Replaced and deleted records come back under new revisions, as
	// if a client had written them again; unchanged records keep their revisions. The latest revision rises, and Reset
	// compacts all revisions before it, so watchers get ErrReset.
	//
	// Possible errors: ErrNoCheckpoint, ErrClosed.
	Reset() error
}

// fenceKey is the context key of the channel that WithFence sets.
type fenceKey struct{}

// WithFence returns a context that keeps late requests out of a [Resetter]: once done is closed, writes with the
// context fail with ErrFenced, and watches with ErrReset. The same holds for contexts derived from it, including those
// from [context.WithoutCancel].
func WithFence(ctx context.Context, done <-chan struct{}) context.Context {
	return context.WithValue(ctx, fenceKey{}, done)
}

// Fenced reports whether the fence of ctx is closed, so that writes with ctx fail.
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
