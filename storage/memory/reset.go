package memory

import (
	"context"
	"errors"

	"flyball.dev/storage"
)

// checkpoint is a state of the store that Reset returns to.
type checkpoint struct {
	revision uint64
	records  roots
	expiry   *node
	leases   leases
	// replaced lists the records of the checkpoint that were replaced or deleted since.
	replaced []*storage.Record
}

var _ storage.Resetter = (*Store)(nil)

// errJournaled is the error of Checkpoint if there is a journal, in which Reset would have to be written
// too.
var errJournaled = errors.New("storage: a store with a journal cannot return to an earlier state")

// Checkpoint implements [storage.Resetter].
func (s *Store) Checkpoint() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return storage.ErrClosed
	case s.commits.journal != nil:
		return errJournaled
	}
	s.checkpoint = &checkpoint{revision: s.revision, records: s.tree.snapshot(), expiry: s.expiry.queue.snapshot(), leases: s.leases.clone()}
	return nil
}

// note records that a record is no longer current.
func (c *checkpoint) note(r *storage.Record) {
	if c != nil && r.Revision <= c.revision {
		c.replaced = append(c.replaced, r)
	}
}

// Reset implements [storage.Resetter].
func (s *Store) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return storage.ErrClosed
	case s.checkpoint == nil:
		return storage.ErrNoCheckpoint
	}
	c := s.checkpoint
	s.compact(s.revision)
	s.tree = s.tree.at(c.records)
	s.expiry.queue = tree{root: c.expiry}
	for _, r := range c.replaced {
		entry := entryOf(r).copy() // r is retired
		restored := &entry.Record
		s.revision++
		restored.Revision = s.revision
		s.tree.put(restored)
		if !restored.Expires.IsZero() {
			s.expiry.enqueue(restored)
		}
		s.compression.add(s, entry)
	}
	if len(c.replaced) == 0 {
		s.revision++ // so that every watcher is behind
	}
	s.visible = s.revision
	s.history.compacted, s.history.dropped, s.history.reset = s.revision, s.revision, s.revision
	s.snapshots = nil
	s.expiry.arm(s)
	for _, t := range s.topics {
		t.wake(s.revision)
	}
	s.leases.stop()
	s.leases = c.leases
	s.leases.arm(s)
	s.checkpoint = &checkpoint{revision: s.revision, records: s.tree.snapshot(), expiry: s.expiry.queue.snapshot(), leases: s.leases.clone()}
	return nil
}

// compacted returns the error for a compacted revision. The caller holds the lock.
func (s *Store) compacted(revision uint64) error {
	if revision < s.history.reset {
		return storage.ErrReset
	}
	return storage.ErrCompacted
}

// fenced reports whether a write with ctx must fail. The caller holds the lock.
func (s *Store) fenced(ctx context.Context) bool { return s.checkpoint != nil && storage.Fenced(ctx) }
