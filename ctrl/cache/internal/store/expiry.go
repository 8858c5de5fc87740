package store

import (
	"sync/atomic"
	"time"
)

// overlayTTL bounds how long an overlay or an invalidation lasts. The watch usually ends it within
// milliseconds; the bound is for writes that the watch never delivers, and does not depend on
// bookmarks.
const overlayTTL = 5 * time.Minute

// deadlines have the deadlines of overlays and invalidations, as times since the store was made.
type deadlines struct {
	made time.Time
	// earliest is no later than the earliest deadline, or zero if there are none.
	earliest atomic.Int64
}

// begin returns the deadline of an overlay or an invalidation that begins now.
func (d *deadlines) begin() time.Duration {
	until := time.Since(d.made) + overlayTTL
	d.earliest.CompareAndSwap(0, int64(until))
	return until
}

// overdue reports whether an overlay or an invalidation may be past its deadline.
func (d *deadlines) overdue() bool {
	at := d.earliest.Load()
	return at != 0 && int64(time.Since(d.made)) >= at
}

// expire drops the overlays and invalidations that are past their deadline.
func (s *Store) expire() {
	if s.deadlines.overdue() {
		s.writing.Lock()
		defer s.unlock()
		s.dropExpired()
	}
}

// dropExpired is expire for the writer.
func (s *Store) dropExpired() {
	if !s.deadlines.overdue() {
		return
	}
	now, next := time.Since(s.deadlines.made), time.Duration(0)
	expired := func(until time.Duration) bool {
		if until <= now {
			return true
		}
		if next == 0 || until < next {
			next = until
		}
		return false
	}
	writes := func(q *queue[queuedOverlay]) {
		for p, ok := q.peek(); ok && expired(p.expires); p, ok = q.peek() {
			q.pop()
			s.dropOverlay(p)
		}
	}
	invalid := func(q *queue[*Invalidation]) {
		for v, ok := q.peek(); ok && expired(v.expires); v, ok = q.peek() {
			q.pop()
			s.invalid.end(v)
		}
	}
	writes(&s.deletions)
	invalid(&s.invalid.unbounded)
	for _, c := range s.scopes {
		writes(&c.overlays)
		invalid(&c.invalid)
	}
	s.deadlines.earliest.Store(int64(next))
}
