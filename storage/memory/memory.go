// Package memory keeps records in memory: the whole of a small or short-lived control plane, and the
// measure of what other stores must do.
//
// Records stand in a B-tree that is copied on write, so that a range is read from a snapshot while
// writers go on. Events stand in one log that all watchers read, each at its own pace; it holds the
// latest writes only, and who falls behind its beginning gets [storage.ErrCompacted]. Older revisions
// within the log are read by undoing the writes since. A store without expiring records has neither
// goroutine nor timer.
package memory

import (
	"context"
	"sync"

	"github.com/google/btree"

	"flyball.dev/storage"
)

const (
	// degree of the tree: nodes of up to 63 records.
	degree = 32
	// warm is how many events back the memos of records that were replaced are kept, for watchers that
	// are a little behind.
	warm = 1024
	// overhead is about what an event takes besides values.
	overhead = 256
)

// Options configure a store. The zero value is ready to use.
type Options struct {
	// History is about how many bytes of the past are kept, at the least, for watchers and for reads in
	// the past: of records that have been replaced or deleted since, and of the log itself. The most is
	// twice that. By default 32 MiB, which is some 15,000 changes of pods.
	History int
}

// Store is a [storage.Store] in memory.
type Store struct {
	history int

	mu       sync.Mutex
	closed   bool
	revision uint64
	tree     *btree.BTreeG[entry]
	snapshot *btree.BTreeG[entry] // of the tree at the latest revision, if somebody has asked for one

	// log holds one event for each revision after compacted. Its elements never change once they are
	// there, so a slice of it can be read without the lock.
	log       []*storage.Event
	compacted uint64
	past      int // bytes that are there because of the log

	topics map[string]*topic // by path
	expiry expiry
}

// entry is a record in the tree, with its key at hand for comparisons.
type entry struct {
	key    string
	record *storage.Record
}

func less(a, b entry) bool { return a.key < b.key }

// New returns an empty store.
func New(o Options) *Store {
	if o.History <= 0 {
		o.History = 32 << 20
	}
	return &Store{
		history:   o.History,
		revision:  storage.First,
		compacted: storage.First,
		tree:      btree.NewG(degree, less),
		topics:    map[string]*topic{},
	}
}

// Revisions implements [storage.Store].
func (s *Store) Revisions(context.Context) (latest, oldest uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, 0, storage.ErrClosed
	}
	return s.revision, s.compacted, nil
}

// Get implements [storage.Store].
func (s *Store) Get(_ context.Context, key string) (*storage.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, storage.ErrClosed
	}
	if e, ok := s.tree.Get(entry{key: key}); ok {
		return e.record, nil
	}
	return nil, storage.ErrNotFound
}

// Put implements [storage.Store].
func (s *Store) Put(_ context.Context, w storage.Write) (*storage.Record, error) {
	if err := storage.CheckKey(w.Key); err != nil {
		return nil, err
	}
	record := &storage.Record{Key: w.Key, Value: w.Value, Expires: w.Expires}
	event := &storage.Event{Type: storage.Created, Record: record}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, storage.ErrClosed
	}
	old, found := s.tree.Get(entry{key: w.Key})
	if w.If != storage.Any && w.If != revisionOf(old.record) {
		return old.record, storage.ErrConflict
	}
	record.Revision = s.revision + 1
	record.Created = record.Revision
	if found {
		record.Created = old.record.Created
		event.Type, event.Prev = storage.Modified, old.record
	}
	if w.Seal != nil {
		w.Seal(record)
	}
	s.tree.ReplaceOrInsert(entry{w.Key, record})
	s.commit(event)
	return record, nil
}

// Delete implements [storage.Store].
func (s *Store) Delete(_ context.Context, key string, revision uint64) (*storage.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, storage.ErrClosed
	}
	old, found := s.tree.Get(entry{key: key})
	if !found {
		return nil, storage.ErrNotFound
	}
	if revision != storage.Any && revision != old.record.Revision {
		return old.record, storage.ErrConflict
	}
	return s.remove(old.record), nil
}

// Compact implements [storage.Store].
func (s *Store) Compact(_ context.Context, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return storage.ErrClosed
	case revision > s.revision:
		return storage.ErrFuture
	case revision > s.compacted:
		s.compact(revision)
	}
	return nil
}

// Close implements [storage.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.expiry.stop()
	for _, t := range s.topics {
		t.wake(s.revision + 1)
	}
	s.tree, s.snapshot, s.log, s.topics = nil, nil, nil, nil
	return nil
}

// remove deletes a record that is in the tree. The lock is held.
func (s *Store) remove(old *storage.Record) *storage.Record {
	tombstone := &storage.Record{
		Key: old.Key, Value: old.Value, Created: old.Created, Revision: s.revision + 1, Expires: old.Expires,
	}
	s.tree.Delete(entry{key: old.Key})
	s.commit(&storage.Event{Type: storage.Deleted, Record: tombstone, Prev: old})
	return tombstone
}

// commit makes a write that is in the tree the latest one. The lock is held.
func (s *Store) commit(event *storage.Event) {
	s.revision = event.Record.Revision
	s.snapshot = nil
	s.log = append(s.log, event)
	if s.past += cost(event); s.past > 2*s.history {
		s.trim()
	}
	if n := len(s.log) - warm; n >= 0 {
		forget(s.log[n])
	}
	s.expiry.replace(s, event)
	s.publish(event.Record)
}

// trim drops as many events as it takes to get down to the history that is wanted. The lock is held.
func (s *Store) trim() {
	n, past := 0, s.past
	for ; past > s.history && n < len(s.log); n++ {
		past -= cost(s.log[n])
	}
	s.compact(s.compacted + uint64(n))
}

// compact drops the events up to a revision. Others may be reading the log, so what is left of it moves
// to a new one. The lock is held.
func (s *Store) compact(revision uint64) {
	n := revision - s.compacted
	for _, e := range s.log[:n] {
		s.past -= cost(e)
	}
	kept := s.log[n:]
	s.log = append(make([]*storage.Event, 0, 2*len(kept)), kept...)
	s.compacted = revision
}

// cost is about how many bytes would be free without an event.
func cost(e *storage.Event) int {
	if e.Prev == nil {
		return overhead
	}
	return overhead + len(e.Prev.Value)
}

// forget drops the memos of the records that an event has put into the past.
func forget(e *storage.Event) {
	if e.Prev != nil {
		e.Prev.Forget()
	}
	if e.Type == storage.Deleted {
		e.Record.Forget()
	}
}

func revisionOf(r *storage.Record) uint64 {
	if r == nil {
		return storage.Absent
	}
	return r.Revision
}
