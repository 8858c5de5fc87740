// Package memory implements [storage.Store] in memory. It is the storage of small or short-lived control planes, and
// the reference implementation of the contract. The stores of packages datadir and etcd keep their records in it.
//
// Records are in a copy-on-write, order-statistic B+ tree. A range reads a snapshot without blocking writers, in
// logarithmic time plus the time for its records, at any revision of the history. To make a snapshot at an older
// revision, the store undoes the later writes of the log from the nearest snapshot, and keeps the snapshot for the
// pages that follow.
//
// An index ([storage.Indexer]) finds records by a part of their values, such as pods by spec.nodeName. An index is a
// tree of the same sort by that part, with a tree of the records for each value. It goes through snapshots, forks and
// resets together with the first tree, so a list by an index has pages and revisions as any other.
//
// A store has no goroutines. It has up to four timers: one while any record expires, one while there are leases, one
// while the log is not empty, and one while a record can become idle.
//
// # History
//
// Events are in one log, which all watchers read at their own pace. A slow watcher blocks nobody, and a watcher has no
// goroutine. The store compacts the log by size (32 to 64 MiB, with 4 MiB for events older than a minute) and by time
// (5 minutes). A watcher that has not read a compacted event, and a range at a compacted revision, get
// [storage.ErrCompacted].
//
// A replaced record keeps its cached values for a minute, 1,024 writes or an eighth of the history, whichever is least,
// and caches none later. So a slow watcher costs decoding instead of memory.
//
// # Idle records
//
// With [Options.CompressAfter], a record that nobody has used for that time is idle: the store drops its cached values
// and compresses its value, with a dictionary of at most 48 KiB that it trains on the values of the collection. A
// dictionary has whole values of each sort, so a value like them consists of few, long matches: a small pod that runs
// takes 0.2 KiB instead of 2.5. flyball up and flyball dev set 10 seconds. The next use of the record makes it active again, unless a range reads it in passing
// ([storage.Query].Scan). While records of many MiB are written or used, records become idle sooner, after the next 1
// to 2 MiB of others, so a burst of writes does not fill the memory with decoded objects. Large values that were replaced
// are compressed too, since few of them fill the history. The package never runs the garbage collector.
//
// # Journals
//
// A [Journal] makes writes durable, for package datadir. Writes go to the tree at once, in groups. Readers and watchers
// see a group when the journal has made it durable, and a group that fails is undone. A write that conflicts with a
// write that is not durable yet waits for it, so no response rests on a write that a crash can take back. One of the
// waiting writers calls the journal for all of them (group commit).
//
// # Checkpoints and forks
//
// A checkpoint keeps the root of the tree, and a list of the records that were replaced since. A reset restores the
// root, writes those records again with new revisions, and compacts all earlier history, so each watcher gets
// [storage.ErrCompacted].
//
// A fork takes a snapshot of the tree in constant time; both stores copy a node before they change it. Records are
// shared, with their cached values. A store never retires a record that was there at the fork, and never drops its
// cached values, because the record may be current in the other store. Both may compress it. History, watchers and
// timers belong to one store.
//
// # Transactions and leases
//
// Transact calls a function with the latest state while no other write can come, and commits the writes that the
// function returns. The result is returned when everything that the function has read is durable. A record has the ID
// of its lease.
package memory

import (
	"context"
	"errors"
	"sync"
	"time"

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
	// value; it does so after twice that time at the latest, and earlier while records of many MiB are written or
	// used. Zero means never. The freed memory is garbage, which the
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
	tree      indexedTree
	snapshots snapshots
	history   history
	topics    map[string]*topic // by path
	expiry    expiry
	leases    leases
	commits   commits

	// replica is set in a [Replica].
	replica bool

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
		leases:   leases{byID: map[int64]*lease{}},

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
	ops := [1]operation{newOperation(w)}
	err := s.write(ctx, ops[:])
	return ops[0].record, err
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, key string, revision uint64) (*storage.Record, error) {
	ops := [1]operation{newOperation(storage.Write{Key: key, Delete: true, If: revision})}
	err := s.write(ctx, ops[:])
	return ops[0].record, err
}

// Commit implements [storage.Store].
func (s *Store) Commit(ctx context.Context, writes []storage.Write) ([]*storage.Record, error) {
	if err := storage.CheckWrites(writes); err != nil || len(writes) == 0 {
		return nil, err
	}
	ops := newOperations(writes)
	err := s.write(ctx, ops)
	if err != nil && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
		return nil, err
	}
	records := make([]*storage.Record, len(ops))
	for i := range ops {
		records[i] = ops[i].record
	}
	return records, err
}

// Compact implements [storage.Store].
func (s *Store) Compact(_ context.Context, revision uint64) error {
	b, err := s.tryCompact(revision)
	if err != nil {
		return err
	}
	return s.settle(b)
}

// tryCompact compacts the history. With a journal, it returns the batch after which the history is compacted.
func (s *Store) tryCompact(revision uint64) (*batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, storage.ErrClosed
	case revision > s.visible:
		return nil, storage.ErrFuture
	case revision <= s.history.compacted:
		return nil, nil
	case s.commits.journal == nil:
		s.compact(revision)
		return nil, nil
	}
	b := s.commits.batch()
	b.compacted = max(b.compacted, revision)
	return b, nil
}

// Close implements [storage.Store].
func (s *Store) Close() error {
	defer s.compression.finish()
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
	s.leases.stop()
	s.history.stop()
	for _, t := range s.topics {
		t.wake(s.revision + 1)
	}
	s.tree, s.snapshots, s.history.log, s.topics, s.checkpoint = indexedTree{}, nil, nil, nil, nil
	return nil
}

// writable returns the error for a write with the given context. A request that has ended must not write, because its
// client has been told that it failed. A request has ended when its deadline has passed, even if the timer of its
// context has yet to run. The caller holds the lock.
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
