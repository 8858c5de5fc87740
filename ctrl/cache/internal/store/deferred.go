package store

import (
	"runtime"

	"flyball.dev/internal/invariants"
)

// pending is a state that was published before its object was packed, with its record.
type pending struct {
	record *record
	state  *state
}

// maxPending is how many states of a scope may wait to be packed. If a watch has more events to apply,
// the objects of the rest are packed at once.
const maxPending = 64

// deferPacking publishes a state before it is packed, unless too many wait already, so that
// listeners are notified first. The caller is the writer.
func (c *Scope) deferPacking(r *record, st *state) {
	if len(c.pending) < maxPending {
		st.published = true
		c.pending = append(c.pending, pending{r, st})
	}
}

// Idle packs the objects that are not packed yet. It is called when all events that the watch has
// received are applied.
func (c *Scope) Idle() {
	s := c.store
	s.writing.Lock()
	n := len(c.pending)
	s.unlock()
	if n == 0 {
		return
	}
	// The listeners that were just notified run first. Handlers are called in about two thirds of the time, by BenchmarkNotify
	// of package cache.
	runtime.Gosched()
	s.writing.Lock()
	defer s.unlock()
	for _, p := range c.pending {
		s.replace(p.record, p.state)
		if invariants.Enabled {
			s.check(p.record)
		}
	}
	clear(c.pending)
	c.pending = c.pending[:0]
}

// replace puts a packed state in the place of one that was published before, unless that was
// superseded. Readers that hold the old state find the new one through it. The caller is the
// writer.
func (s *Store) replace(r *record, old *state) {
	if r.watched != old && r.visible != old {
		return
	}
	st := &state{uid: old.uid, version: old.version}
	st.decoded.Store(old.decoded.Load())
	s.publish(&r.key, st)
	if st.value.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.watched == old {
		r.watched = st
	}
	if r.visible == old {
		r.visible = st
	}
	s.view = s.packer.View()
	old.decoded.Store(&decoded{replacement: s.object(r, st)})
}
