package memory

import (
	"context"
	"fmt"

	"flyball.dev/storage"
)

// Loader builds a store from what a journal has kept: first the records of one revision, then the
// writes since. It is used by one goroutine, and by none after Store.
type Loader struct {
	store   *Store
	journal Journal
}

// NewLoader returns a loader of a store with options. Their journal gets none of the loaded records.
func NewLoader(o Options) *Loader {
	l := &Loader{journal: o.Journal}
	o.Journal = nil
	l.store = New(o)
	l.store.expiry.paused = true
	return l
}

// Record adds a record of the first revision. Records come before the call of At, in any order; the order
// of their keys is the fastest. The value belongs to the store from then on.
func (l *Loader) Record(r storage.Record, value []byte) {
	s := l.store
	e := newEntry(r.Key, value)
	e.Created, e.Revision, e.Version, e.Expires = r.Created, r.Revision, r.Version, r.Expires
	s.tree.put(r.Key, &e.Record)
	s.compression.add(s, e)
	if !r.Expires.IsZero() {
		s.expiry.queue.put(deadline(&e.Record), &e.Record)
	}
}

// At sets the revision of the records. What was written before it is compacted.
func (l *Loader) At(revision uint64) {
	s := l.store
	s.revision, s.visible = revision, revision
	s.history.compacted, s.history.dropped = revision, revision
}

// Commit adds a transaction at the next revision.
//
// Possible errors: ErrKey, ErrNotFound for the deletion of a key without a record, ErrConflict.
func (l *Loader) Commit(writes []storage.Write) error {
	if _, err := l.store.Commit(context.Background(), writes); err != nil {
		return fmt.Errorf("revision %d: %w", l.store.revision+1, err)
	}
	return nil
}

// Revision returns the revision of the latest write.
func (l *Loader) Revision() uint64 { return l.store.revision }

// Len returns how many records there are.
func (l *Loader) Len() int { return l.store.tree.root.len() }

// Records returns the records in the order of their keys.
func (l *Loader) Records() []*storage.Record {
	root := l.store.tree.root
	return root.collect(nil, 0, root.len())
}

// Store returns the store, which deletes expired records from now on.
func (l *Loader) Store() *Store {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits.journal = l.journal
	s.expiry.paused = false
	s.expiry.arm(s)
	return s
}

// Close releases a store that could not be loaded.
func (l *Loader) Close() error { return l.store.Close() }
