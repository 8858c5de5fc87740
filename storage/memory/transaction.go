package memory

import (
	"context"

	"flyball.dev/internal/invariants"
	"flyball.dev/storage"
)

// operation is one write of a transaction.
type operation struct {
	storage.Write
	entry *entry // of a write that is not a deletion
	// old is the record that the write replaces, as check has found it.
	old *storage.Record
	// record is the result: the new record, or with an error the current one.
	record *storage.Record
}

// newOperation prepares a write with a valid key.
func newOperation(w storage.Write) operation {
	o := operation{Write: w}
	if !w.Delete {
		o.entry = newEntry(w.Key, w.Value)
		o.entry.Expires, o.entry.Lease = w.Expires, w.Lease
	}
	return o
}

// newOperations prepares the writes of a transaction, which have valid keys.
func newOperations(writes []storage.Write) []operation {
	ops := make([]operation, len(writes))
	for i := range writes {
		ops[i] = newOperation(writes[i])
	}
	return ops
}

// write carries out a transaction, and waits until it is durable. An error that rests on a write which is not durable
// itself may be wrong: write then tries again when the other write is settled.
func (s *Store) write(ctx context.Context, ops []operation) error {
	for {
		b, guess, err := s.tryWrite(ctx, ops)
		switch {
		case guess:
			_ = s.settle(b) // if the other write fails, that is no error of this one
			continue
		case err != nil:
			return err
		}
		if err = s.settle(b); err != nil {
			clearResults(ops)
		}
		return err
	}
}

// tryWrite carries out a transaction if its conditions hold, and returns the batch of the latest write. With an error,
// guess says whether the error rests on a write that is not durable.
func (s *Store) tryWrite(ctx context.Context, ops []operation) (b *batch, guess bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clearResults(ops)
	if err := s.writable(ctx); err != nil {
		return nil, false, err
	}
	if guess, err := s.check(ops); err != nil {
		return s.commits.last, guess, err
	}
	s.apply(ops, s.revision+1)
	return s.commits.last, false, nil
}

func clearResults(ops []operation) {
	for i := range ops {
		ops[i].record = nil
	}
}

// check checks the conditions of a transaction. The caller holds the lock.
func (s *Store) check(ops []operation) (guess bool, err error) {
	for i := range ops {
		o := &ops[i]
		o.old = s.tree.root.get(o.Key)
		switch {
		case o.Delete && o.old == nil:
			err = storage.ErrNotFound
		case !isAt(o.old, o.If):
			err = storage.ErrConflict
		default:
			continue
		}
		if s.isPending(o.Key) {
			return true, err
		}
		s.current(ops)
		return false, err
	}
	for i := range ops {
		if id := ops[i].Lease; !ops[i].Delete && !s.leases.loading && !s.leases.has(id) && id != 0 {
			return s.commits.unsettled() != nil, storage.ErrNoLease
		}
		for _, c := range ops[i].Require {
			if !isAt(s.tree.root.get(c.Key), c.If) {
				return s.isPending(c.Key), storage.ErrCondition
			}
		}
	}
	return false, nil
}

// current sets the results of a transaction to the current records. The caller holds the lock.
func (s *Store) current(ops []operation) {
	for i := range ops {
		o := &ops[i]
		if o.record = s.get(o.Key); o.record != nil {
			s.wake(o.record)
		}
	}
}

// apply carries out a transaction that was checked, at a revision after the latest. The caller holds the lock.
func (s *Store) apply(ops []operation, revision uint64) {
	var few [4]*storage.Event // most transactions need no allocation
	events := few[:0]
	for i := range ops {
		o := &ops[i]
		var event *storage.Event
		if o.Delete {
			event = s.remove(o.old, revision)
		} else {
			event = s.put(o, revision)
		}
		o.record = event.Record
		events = append(events, event)
	}
	s.commit(events, revision)
}

// put puts the record of a write that replaces o.old into the tree. The caller holds the lock.
func (s *Store) put(o *operation, revision uint64) *storage.Event {
	record := &o.entry.Record
	event := &storage.Event{Type: storage.Created, Record: record}
	record.Revision, record.Created, record.Version = revision, revision, 1
	if o.old != nil {
		record.Created, record.Version = o.old.Created, o.old.Version+1
		event.Type, event.Prev = storage.Modified, o.old
	}
	if o.OnCommit != nil {
		o.OnCommit(record)
	}
	s.tree.put(record)
	s.compression.add(s, o.entry)
	return event
}

// remove removes a record from the tree. The caller holds the lock.
func (s *Store) remove(old *storage.Record, revision uint64) *storage.Event {
	tombstone := &entryOf(old).copy().Record
	tombstone.Revision = revision
	s.tree.remove(old.Key)
	return &storage.Event{Type: storage.Deleted, Record: tombstone, Prev: old}
}

// commit makes a transaction that is already in the tree the latest one: it appends the events to the log. Without a
// journal, the transaction is visible at once. The caller holds the lock.
func (s *Store) commit(events []*storage.Event, revision uint64) {
	s.revision = revision
	for _, e := range events {
		if e.Prev == nil {
			continue
		}
		s.checkpoint.note(e.Prev)
		if !s.history.isShared(e.Prev) {
			entryOf(e.Prev).retire() // from now on the history drops its cached values
		}
		s.compression.prune(s.tree.root.len())
	}
	journaled := s.commits.journal != nil
	if !journaled {
		s.visible = s.revision
	}
	s.append(events)
	for _, e := range events {
		s.expiry.replace(s, e)
		s.leases.replace(e)
	}
	if invariants.Enabled {
		s.checkCommit(events)
	}
	if journaled {
		b := s.commits.batch()
		b.events = append(b.events, events...)
	} else {
		s.publish(events)
	}
}

// isAt reports whether a record is at the revision that a write requires; nil stands for no record.
func isAt(r *storage.Record, required uint64) bool {
	switch {
	case required == storage.Any:
		return true
	case r == nil:
		return required == storage.Absent
	}
	return required == r.Revision
}
