package store

import (
	"time"

	"flyball.dev/internal/invariants"
)

// pending is a state that was published before its object was packed, with its record.
type pending struct {
	record *record
	state  *state
}

const (
	// maxPending is how many states of a scope may wait to be packed.
	maxPending = 256
	// packAfter is how long the oldest of them waits.
	packAfter = time.Second
)

// deferPacking publishes a state before it is packed. So listeners are notified first, and a state that is soon superseded is never
// packed. The caller is the writer.
func (c *Scope) deferPacking(r *record, st *state) {
	st.published = true
	c.pending.push(pending{r, st})
	if c.pending.len() > maxPending {
		c.packOldest()
	}
	if c.packTimer == nil {
		c.packTimer = time.AfterFunc(packAfter, c.Pack)
	}
}

// packOldest packs the state that has waited for the longest. The caller is the writer.
func (c *Scope) packOldest() {
	p, _ := c.pending.peek()
	c.pending.pop()
	c.store.replace(p.record, p.state)
	if invariants.Enabled {
		c.store.check(p.record)
	}
}

// Pack packs the objects that are not packed yet. It may be called by any goroutine.
func (c *Scope) Pack() {
	c.store.writing.Lock()
	defer c.store.unlock()
	if c.packTimer != nil {
		c.packTimer.Stop()
		c.packTimer = nil
	}
	for c.pending.len() > 0 {
		c.packOldest()
	}
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
	s.packing.publish(&r.key, st)
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
	s.kind, s.view = s.packing.kind, s.packing.packer.View()
	old.decoded.Store(&decoded{replacement: s.object(r, st)})
}
