// Package memory implements [storage.Store] in memory. It is the storage of small or short-lived control planes, and
// the reference implementation of the contract.
//
// Records are in a copy-on-write, order-statistic tree. A range reads a snapshot without blocking writers, in
// logarithmic time plus the time for its records. Events are in one log, which all watchers read at their own pace. The
// store compacts the log by size and by time, and a watcher that has not read a compacted event gets
// [storage.ErrCompacted]. To make a snapshot at an older revision, the store undoes the later writes of the log, and
// keeps the snapshot for the pages that follow.
//
// With [Options.CompressAfter], a record that nobody has used for a while is idle: the store drops its cached values
// and compresses its value with a dictionary that it trains on the values of the collection.
//
// A store has no goroutines. It has up to three timers: one while any record expires, one while the log is not empty,
// and one while a record can become idle.
package memory

import (
	"context"
	"sync"
	"time"

	"flyball.dev/internal/invariants"
	"flyball.dev/storage"
)

// Options configure a store. The zero value is ready to use.
type Options struct {
	// History is about how many bytes the log and the records that were replaced or deleted may take. The store keeps
	// them for watchers and for reads at old revisions, and compacts them when they take twice as many bytes. The
	// default is 32 MiB, enough for some 15,000 changes of pods.
	History int
	// Retention is the age up to which events survive compaction by time. Events are compacted at the latest a tenth of
	// Retention later. Events older than a fifth of Retention may take only an eighth of History. The default is 5
	// minutes.
	Retention time.Duration
	// CompressAfter is how long a record must be unused before the store may drop its cached values and compress its
	// value; it does so after twice that time at the latest. Zero means never. The freed memory is garbage, which the
	// store does not collect itself.
	CompressAfter time.Duration
	// Journal, if not nil, makes writes durable before they are visible. The store does not close it.
	Journal Journal
}

// Store is a [storage.Store] in memory.
type Store struct {
	mu        sync.Mutex
	closed    bool
	revision  uint64 // of the latest write
	visible   uint64 // of the latest write that readers see; the same but for writes that are not durable yet
	tree      tree
	snapshots snapshots
	history   history
	topics    map[string]*topic // by path
	expiry    expiry
	commits   commits

	compression compression
	// checkpoint is nil before Checkpoint.
	checkpoint *checkpoint
}

// New returns an empty store.
func New(o Options) *Store {
	if o.History <= 0 {
		o.History = 32 << 20
	}
	if o.Retention <= 0 {
		o.Retention = 5 * time.Minute
	}
	return &Store{
		revision: storage.First,
		visible:  storage.First,
		commits:  commits{journal: o.Journal, writing: make(chan struct{}, 1)},
		history:  history{size: o.History, retention: o.Retention, compacted: storage.First, dropped: storage.First},
		topics:   map[string]*topic{},

		compression: compression{interval: max(0, o.CompressAfter)},
	}
}

// Revisions implements [storage.Store].
func (s *Store) Revisions(context.Context) (latest, oldest uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, 0, storage.ErrClosed
	}
	return s.visible, s.history.compacted, nil
}

// Get implements [storage.Store].
func (s *Store) Get(_ context.Context, key string) (*storage.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, storage.ErrClosed
	}
	if r := s.get(key); r != nil {
		s.wake(r)
		return r, nil
	}
	return nil, storage.ErrNotFound
}

// Put implements [storage.Store].
func (s *Store) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	if err := storage.CheckKey(w.Key); err != nil {
		return nil, err
	}
	entry := newEntry(w.Key, w.Value)
	entry.Expires = w.Expires
	return s.write(ctx, func() (*storage.Record, bool, error) { return s.put(entry, &w) })
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, key string, revision uint64) (*storage.Record, error) {
	return s.write(ctx, func() (*storage.Record, bool, error) { return s.delete(key, revision) })
}

// write calls a function that writes, with the lock held, and waits until the write is durable. An error of
// the function that rests on a write which is not durable itself may be wrong: the function is then called
// again when that write is settled.
func (s *Store) write(ctx context.Context, f func() (r *storage.Record, guess bool, err error)) (*storage.Record, error) {
	for {
		r, b, guess, err := s.tryWrite(ctx, f)
		switch {
		case guess:
			_ = s.settle(b) // if the other write fails, that is no error of this one
		case err != nil:
			return r, err
		default:
			if err := s.settle(b); err != nil {
				return nil, err
			}
			return r, nil
		}
	}
}

// tryWrite calls f with the lock held, and returns the batch of the latest write besides its results.
func (s *Store) tryWrite(ctx context.Context, f func() (*storage.Record, bool, error)) (r *storage.Record, b *batch,
	guess bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(ctx); err != nil {
		return nil, nil, false, err
	}
	r, guess, err = f()
	return r, s.commits.last, guess, err
}

// put writes an entry. The lock is held.
func (s *Store) put(entry *entry, w *storage.Write) (r *storage.Record, guess bool, err error) {
	record := &entry.Record
	event := &storage.Event{Type: storage.Created, Record: record}
	old := s.tree.root.get(w.Key)
	if !isAt(old, w.If) {
		s.wake(old)
		return old, s.isPending(w.Key), storage.ErrConflict
	}
	for _, c := range w.Require {
		if !isAt(s.tree.root.get(c.Key), c.If) {
			return nil, s.isPending(c.Key), storage.ErrCondition
		}
	}
	record.Revision = s.revision + 1
	record.Created = record.Revision
	if old != nil {
		record.Created = old.Created
		event.Type, event.Prev = storage.Modified, old
	}
	if w.BeforeCommit != nil {
		w.BeforeCommit(record)
	}
	s.tree.put(w.Key, record)
	s.compression.add(s, entry)
	s.commit(event)
	return record, false, nil
}

// delete deletes the record under a key. The lock is held.
func (s *Store) delete(key string, revision uint64) (r *storage.Record, guess bool, err error) {
	old := s.tree.root.get(key)
	if old == nil {
		return nil, s.isPending(key), storage.ErrNotFound
	}
	if !isAt(old, revision) {
		s.wake(old)
		return old, s.isPending(key), storage.ErrConflict
	}
	return s.remove(old), false, nil
}

// Compact implements [storage.Store].
func (s *Store) Compact(_ context.Context, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return storage.ErrClosed
	case revision > s.visible:
		return storage.ErrFuture
	case revision > s.history.compacted:
		s.compact(revision)
	}
	return nil
}

// Close implements [storage.Store].
func (s *Store) Close() error {
	defer s.compression.wait()
	s.commits.writing <- struct{}{} // when the journal has returned
	defer func() { <-s.commits.writing }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if b := s.commits.open; b != nil {
		b.settle(storage.ErrClosed)
		s.commits.open = nil
	}
	s.compression.stop()
	s.expiry.stop()
	s.history.stop()
	for _, t := range s.topics {
		t.wake(s.revision + 1)
	}
	s.tree, s.snapshots, s.history.log, s.topics, s.checkpoint = tree{}, nil, nil, nil, nil
	return nil
}

// writable returns the error for a write with the given context. A request that has ended must not write, because its
// client has been told that it failed. A request whose deadline has passed has ended, even if the timer of its context
// has yet to run. The caller holds the lock.
func (s *Store) writable(ctx context.Context) error {
	switch {
	case s.closed:
		return storage.ErrClosed
	case s.fenced(ctx):
		return storage.ErrFenced
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// remove deletes a record that is in the tree. The caller holds the lock.
func (s *Store) remove(old *storage.Record) *storage.Record {
	tombstone := &entryOf(old).copy().Record
	tombstone.Revision = s.revision + 1
	s.tree.remove(old.Key)
	s.commit(&storage.Event{Type: storage.Deleted, Record: tombstone, Prev: old})
	return tombstone
}

// commit makes a write that is already in the tree the latest one: it appends the event to the log. Without a journal,
// the write is visible at once. The caller holds the lock.
func (s *Store) commit(event *storage.Event) {
	if invariants.Enabled {
		s.checkCommit(event)
	}
	s.revision = event.Record.Revision
	if event.Prev != nil {
		s.checkpoint.note(event.Prev)
		entryOf(event.Prev).retire() // from now on the history drops its cached values
		s.compression.prune(s.tree.root.len())
	}
	journaled := s.commits.journal != nil
	if !journaled {
		s.visible = s.revision
	}
	s.append(event)
	s.expiry.replace(s, event)
	if journaled {
		s.commits.add(event)
	} else {
		s.publish(event.Record)
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
