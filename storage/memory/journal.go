package memory

import (
	"slices"
	"time"

	"flyball.dev/internal/invariants"
	"flyball.dev/storage"
)

// Journal makes the writes of a store durable. A write is not visible before Write has returned, so
// that nobody reads, or watches, what a crash can take back.
type Journal interface {
	// Write makes a batch durable, as a whole or not at all. The store calls it with what has happened since the last call,
	// and never twice at once. The batch must not be changed.
	//
	// If Write returns an error, nothing of the batch is durable: the store undoes the writes, which
	// return that error, and the next events have the same revisions. A journal that cannot tell whether
	// the batch is durable returns an error from every later call too.
	Write(Batch) error
}

// Batch is what becomes durable together.
type Batch struct {
	// Events are in the order of the writes.
	Events []*storage.Event
	// Leases are in the order of the changes. A lease may have been granted before an event that attaches a record to it,
	// and be revoked by a later change.
	Leases []LeaseChange
	// Compacted is the revision that a client has compacted the history at, zero for none. It is not later than the first
	// event.
	Compacted uint64
}

// retryExpiry is how long the store waits before it deletes expired records again when the journal has
// refused their deletion.
const retryExpiry = time.Second

// commits groups writes that become durable together. It is unused in a store without a journal.
type commits struct {
	journal Journal
	// writing has a value while a goroutine calls the journal.
	writing chan struct{}
	// open is the batch that writes are added to, flushing the batch that the journal has, nil for none, and last the batch of
	// the latest write. The store's lock guards them.
	open, flushing, last *batch
}

// batch is a group of writes that become durable together. The first of their goroutines that gets to
// it calls the journal for all.
type batch struct {
	// The store's lock guards these while the batch is open.
	events    []*storage.Event
	leases    []leaseChange
	compacted uint64
	// done is closed when the batch is settled, and err is written before that.
	done chan struct{}
	err  error
}

// settled reports whether the batch is settled.
func (b *batch) settled() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// settle makes the batch settled.
func (b *batch) settle(err error) {
	b.err = err
	close(b.done)
}

// batch returns the open batch. The lock is held.
func (c *commits) batch() *batch {
	if c.open == nil {
		c.open = &batch{done: make(chan struct{})}
		c.last = c.open
	}
	return c.open
}

// unsettled returns the batch of the latest write if the batch is not settled, or nil. The lock is held.
func (c *commits) unsettled() *batch {
	if c.last == nil || c.last.settled() {
		return nil
	}
	return c.last
}

// settle waits until a batch is durable and its writes are visible, or returns why they were undone. A
// nil batch belongs to a store without a journal.
func (s *Store) settle(b *batch) error {
	if b == nil {
		return nil
	}
	c := &s.commits
	select {
	case <-b.done:
		return b.err
	case c.writing <- struct{}{}:
	}
	defer func() { <-c.writing }()
	if b.settled() {
		return b.err
	}
	// A goroutine that writes a batch settles it before it lets another write, so b is the open one.
	s.mu.Lock()
	c.open, c.flushing = nil, b
	s.mu.Unlock()
	err := c.journal.Write(Batch{b.events, changes(b.leases), b.compacted})
	s.mu.Lock()
	defer s.mu.Unlock()
	c.flushing = nil
	if err == nil {
		s.show(b.events)
		if b.compacted > s.history.compacted {
			s.compact(b.compacted)
		}
	} else {
		s.undoPending(b, err)
	}
	b.settle(err)
	return err
}

// show makes writes visible. The lock is held.
func (s *Store) show(events []*storage.Event) {
	if len(events) == 0 {
		return
	}
	s.visible = events[len(events)-1].Record.Revision
	s.publish(events)
}

// pending returns the events of the writes that are not visible yet. The lock is held.
func (s *Store) pending() []*storage.Event {
	if s.visible == s.revision {
		return nil
	}
	return s.history.after(s.visible)
}

// isPending reports whether a write to a key is not visible yet. The lock is held.
func (s *Store) isPending(key string) bool {
	return slices.ContainsFunc(s.pending(), func(e *storage.Event) bool { return e.Record.Key == key })
}

// get returns the record under a key as it is visible, or nil. The lock is held.
func (s *Store) get(key string) *storage.Record {
	for _, e := range s.pending() {
		if e.Record.Key == key {
			return e.Prev
		}
	}
	return s.tree.root.get(key)
}

// undoPending undoes the writes that are not visible, because of an error of the journal for a batch. The lock and
// the right to write are held.
func (s *Store) undoPending(b *batch, err error) {
	if open := s.commits.open; open != nil { // it builds on the undone writes
		s.leases.undo(s, open.leases)
		open.settle(err)
		s.commits.open = nil
	}
	s.leases.undo(s, b.leases)
	undone := s.pending()
	for _, e := range slices.Backward(undone) {
		s.undo(e)
	}
	h := &s.history
	h.log = slices.Clone(h.log[:len(h.log)-len(undone)]) // others may be reading the old log
	s.revision = s.visible
	h.dropped = min(h.dropped, s.revision)
	h.bytes, h.cachedBytes = 0, 0
	for _, e := range h.log {
		h.bytes += cost(e)
		if e.Record.Revision > h.dropped {
			h.cachedBytes += cost(e)
		}
	}
	if invariants.Enabled {
		s.checkHistory()
	}
	if next := s.expiry.next(); next != nil { // not at once: the journal may refuse the deletion again
		s.expiry.armAt(s, latest(next.Expires, time.Now().Add(retryExpiry)))
	}
	if next := s.leases.next(); next != nil {
		s.leases.armAt(s, latest(next.Expires, time.Now().Add(retryExpiry)))
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// undo removes the latest write from the tree and from the queue of expiry. The lock is held.
func (s *Store) undo(e *storage.Event) {
	if r := e.Record; e.Type != storage.Deleted && !r.Expires.IsZero() {
		s.expiry.queue.remove(deadline(r))
	}
	s.leases.undoEvent(e)
	if e.Prev == nil {
		s.tree.remove(e.Record.Key)
		return
	}
	entry := entryOf(e.Prev).copy() // e.Prev is retired
	before := &entry.Record
	s.tree.put(before)
	s.compression.add(s, entry)
	if !before.Expires.IsZero() {
		s.expiry.enqueue(before)
	}
}
