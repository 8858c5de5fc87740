package memory

import (
	"fmt"
	"time"

	"flyball.dev/storage"
)

// Loader builds a store from what a journal has kept: first the records of one revision, then the
// writes since. It is used by one goroutine, and by none after Store.
type Loader struct {
	store   *Store
	journal Journal
}

// NewLoader returns a loader of a store with options. Their journal gets nothing of what is loaded.
func NewLoader(o Options) *Loader {
	l := &Loader{journal: o.Journal}
	o.Journal = nil
	l.store = New(o)
	l.store.expiry.paused = true
	return l
}

// Record adds a record of the first revision. Records come before the call of At, in any order; the order
// of their keys is the fastest. The value belongs to the store from then on.
func (l *Loader) Record(key string, value []byte, created, revision uint64, expires time.Time) {
	s := l.store
	e := newEntry(key, value)
	e.Created, e.Revision, e.Expires = created, revision, expires
	s.tree.put(key, &e.Record)
	s.compression.add(s, e)
	if !expires.IsZero() {
		s.expiry.queue.put(deadline(&e.Record), &e.Record)
	}
}

// At sets the revision of the records. What was written before it is compacted.
func (l *Loader) At(revision uint64) {
	s := l.store
	s.revision, s.visible = revision, revision
	s.history.compacted, s.history.dropped = revision, revision
}

// Put adds the write of a record at the next revision.
func (l *Loader) Put(key string, value []byte, expires time.Time) {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	e := newEntry(key, value)
	e.Expires = expires
	_, _, _ = s.put(e, &storage.Write{Key: key, If: storage.Any}) // without a condition, it cannot fail
}

// Delete adds the deletion of a record at the next revision. It returns an error if there is no such
// record.
func (l *Loader) Delete(key string) error {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.tree.root.get(key)
	if old == nil {
		return fmt.Errorf("%w: %s is deleted at revision %d", storage.ErrNotFound, key, s.revision+1)
	}
	s.remove(old)
	return nil
}

// Revision returns the revision of the latest write.
func (l *Loader) Revision() uint64 { return l.store.revision }

// Len returns how many records there are.
func (l *Loader) Len() int { return l.store.tree.root.len() }

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
