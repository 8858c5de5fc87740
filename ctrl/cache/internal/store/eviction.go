package store

import (
	"sync/atomic"
	"time"
)

// evictSharedAfter is how long a shared value is kept, at least, after it was last read.
const evictSharedAfter = 2 * time.Minute

// eviction ends the sharing of Go values that nobody has read for a while. Its methods are called by
// the writer.
type eviction struct {
	// anyShared is set when a shared value was read that can be evicted. at is the time of the next
	// round, or zero.
	anyShared atomic.Bool
	at        time.Time
}

// begin begins a round of evictions, if it is time for one.
func (e *eviction) begin() bool {
	if !e.anyShared.Load() {
		return false
	}
	now := time.Now()
	if e.at.IsZero() {
		e.at = now.Add(evictSharedAfter)
	}
	if now.Before(e.at) {
		return false
	}
	e.at = time.Time{}
	e.anyShared.Store(false)
	return true
}

// evict evicts the shared value of one state, unless it was read since the last round or the object is
// not packed.
func (e *eviction) evict(st *state) {
	switch {
	case st == nil || st.value.IsZero() || st.decoded.Load() == nil:
	case st.referenced.Swap(false):
		e.anyShared.Store(true)
	default:
		st.decoded.Store(nil)
	}
}
