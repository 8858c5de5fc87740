package store

import (
	"runtime"

	"flyball.dev/internal/invariants"
)

// unpacked is a state that was published before its object was packed, with its record.
type unpacked struct {
	record *record
	state  *state
}

// maxUnpacked is how many states of a scope may wait to be packed. While a watch has more events
// than that to apply, the objects of the rest are packed at once.
const maxUnpacked = 64

// deferPacking publishes a state unpacked, unless too many wait already, so that listeners are
// notified before it is packed. The caller is the writer.
func (c *Scope) deferPacking(r *record, st *state) {
	if len(c.unpacked) < maxUnpacked {
		st.published = true
		c.unpacked = append(c.unpacked, unpacked{r, st})
	}
}

// Idle packs the objects that are not packed yet. It is called when all events that the watch has
// received are applied.
func (c *Scope) Idle() {
	s := c.store
	s.writing.Lock()
	n := len(c.unpacked)
	s.unlock()
	if n == 0 {
		return
	}
	// The listeners that were just notified run first.
	runtime.Gosched()
	s.writing.Lock()
	defer s.unlock()
	for _, u := range c.unpacked {
		s.replace(u.record, u.state)
		if invariants.Enabled {
			s.check(u.record)
		}
	}
	clear(c.unpacked)
	c.unpacked = c.unpacked[:0]
}

// replace puts a packed state in the place of one that was published unpacked, unless that was
// superseded. Readers that hold the old state find the new one through it. The caller is the
// writer.
func (s *Store) replace(r *record, old *state) {
	if r.watched != old && r.visible != old {
		return
	}
	st := &state{uid: old.uid, version: old.version}
	st.shared.Store(old.shared.Load())
	s.publish(st)
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
	packed := s.object(r, st)
	old.replacement.Store(&packed)
	old.shared.Store(nil)
}
