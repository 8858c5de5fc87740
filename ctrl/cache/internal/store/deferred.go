package store

import "runtime"

// unpacked is a record that was published before its object was packed, and its
// entry.
type unpacked struct {
	entry  *entry
	record *record
}

// unpackedAtMost is how many records of a scope wait to be packed. While a watch has
// more events than that to pass on, the objects of the rest are packed at once.
const unpackedAtMost = 64

// deferPacking publishes a record as it is, unless too many wait already, so that
// listeners are notified of it before it is packed. The caller is the writer.
func (c *Scope) deferPacking(e *entry, r *record) {
	if len(c.unpacked) < unpackedAtMost {
		r.published = true
		c.unpacked = append(c.unpacked, unpacked{e, r})
	}
}

// Idle packs what is not packed yet. It is called when every event that the watch
// has received is applied, so there is time for that.
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
		s.replace(u.entry, u.record)
	}
	clear(c.unpacked)
	c.unpacked = c.unpacked[:0]
}

// replace puts a packed record in the place of one that was published unpacked and
// has not been superseded. Readers who hold the old one find the new one through
// it. The caller is the writer.
func (s *Store) replace(e *entry, old *record) {
	if e.watched != old && e.shown != old {
		return
	}
	r := &record{uid: old.uid, version: old.version}
	r.shared.Store(old.shared.Load())
	s.publish(r)
	if r.value.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.watched == old {
		e.watched = r
	}
	if e.shown == old {
		e.shown = r
	}
	s.view = s.packer.View()
	packed := s.object(e, r)
	old.packed.Store(&packed)
	old.shared.Store(nil)
}
