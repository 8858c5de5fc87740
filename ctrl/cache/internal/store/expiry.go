package store

import "time"

// overlayTTL bounds how long an overlay or an invalidation lasts. The watch usually ends it within
// milliseconds; the bound is for writes that the watch never delivers, and does not depend on
// bookmarks.
const overlayTTL = 5 * time.Minute

// deadline returns when an overlay or an invalidation that begins now expires, as the
// time since the store was made.
func (s *Store) deadline() time.Duration {
	until := time.Since(s.made) + overlayTTL
	s.expireAt.CompareAndSwap(0, int64(until))
	return until
}

// expire drops the overlays and invalidations that are past their deadline.
func (s *Store) expire() {
	if s.overdue() {
		s.writing.Lock()
		defer s.unlock()
		s.dropExpired()
	}
}

// overdue reports whether an overlay or an invalidation may be past its deadline.
func (s *Store) overdue() bool {
	at := s.expireAt.Load()
	return at != 0 && int64(time.Since(s.made)) >= at
}

// dropExpired is expire for the writer.
func (s *Store) dropExpired() {
	if !s.overdue() {
		return
	}
	now, next := time.Since(s.made), time.Duration(0)
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
			s.validate(v)
		}
	}
	writes(&s.deletions)
	invalid(&s.unboundedInvalid)
	for _, c := range s.scopes {
		writes(&c.overlays)
		invalid(&c.invalid)
	}
	s.expireAt.Store(int64(next))
}
