package memory

import (
	"context"
	"fmt"

	"flyball.dev/storage"
)

// Replica is a store in memory that repeats the writes of another store, at the revisions of the other store. Some of
// these revisions may be missing: the replica then has no writes at them. Nothing expires in a replica by itself.
//
// All methods may be called concurrently, except that the calls of Replace and Apply must follow each other.
type Replica struct{ store *Store }

// NewReplica returns an empty replica at revision [storage.First]. The options must not have a journal.
func NewReplica(o Options) *Replica {
	s := New(o)
	s.replica, s.expiry.paused, s.leases.loading = true, true, true
	return &Replica{s}
}

// Revisions is [storage.Store].Revisions.
func (r *Replica) Revisions(ctx context.Context) (latest, oldest uint64, err error) {
	return r.store.Revisions(ctx)
}

// Get is [storage.Store].Get.
func (r *Replica) Get(ctx context.Context, key string) (*storage.Record, error) {
	return r.store.Get(ctx, key)
}

// Range is [storage.Store].Range.
func (r *Replica) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	return r.store.Range(ctx, q)
}

// Watch is [storage.Store].Watch.
func (r *Replica) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	return r.store.Watch(ctx, path, after)
}

// Compact is [storage.Store].Compact.
func (r *Replica) Compact(ctx context.Context, revision uint64) error {
	return r.store.Compact(ctx, revision)
}

// HistorySize is [storage.Historian].HistorySize.
func (r *Replica) HistorySize() int { return r.store.HistorySize() }

// Close is [storage.Store].Close.
func (r *Replica) Close() error { return r.store.Close() }

// Apply repeats a transaction of the other store, after all that were applied. Conditions, expiry and OnCommit of the
// writes are ignored. Without writes, only the revision advances.
//
// Apply returns an error, and changes nothing, if the transaction cannot follow: the revision is not later than the
// latest, or a record that is to be deleted does not exist. It also returns ErrClosed.
func (r *Replica) Apply(revision uint64, writes []storage.Write) error {
	ops := make([]operation, len(writes))
	for i, w := range writes {
		ops[i] = newOperation(storage.Write{Key: w.Key, Value: w.Value, Lease: w.Lease, Delete: w.Delete, If: storage.Any})
	}
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return storage.ErrClosed
	case revision <= s.revision:
		return fmt.Errorf("revision %d does not follow %d", revision, s.revision)
	}
	if _, err := s.check(ops); err != nil {
		return fmt.Errorf("revision %d: %w", revision, err)
	}
	if len(ops) == 0 {
		s.revision, s.visible = revision, revision
		return nil
	}
	s.apply(ops, revision)
	return nil
}

// Events returns the events of a revision, in the order of the writes.
//
// Possible errors: ErrCompacted, ErrFuture, ErrClosed.
func (r *Replica) Events(revision uint64) ([]*storage.Event, error) {
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, storage.ErrClosed
	case revision <= s.history.compacted:
		return nil, storage.ErrCompacted
	case revision > s.visible:
		return nil, storage.ErrFuture
	}
	return s.history.between(revision-1, revision), nil
}

// Replace replaces all records by the records of the other store at a later revision. It compacts all revisions before,
// because the replica does not know their writes. The values belong to the replica from then on.
func (r *Replica) Replace(revision uint64, records []storage.Record, values [][]byte) error {
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return storage.ErrClosed
	case revision < s.revision:
		return fmt.Errorf("revision %d does not follow %d", revision, s.revision)
	}
	s.compact(s.revision)
	for _, old := range s.tree.root.collect(nil, 0, s.tree.root.len()) {
		entryOf(old).retire()
	}
	s.tree, s.snapshots = s.tree.at(roots{}), nil
	for i := range records {
		e := newEntry(records[i].Key, values[i])
		e.Created, e.Revision, e.Version, e.Lease = records[i].Created, records[i].Revision, records[i].Version, records[i].Lease
		s.tree.put(&e.Record)
		s.compression.add(s, e)
	}
	s.revision, s.visible = revision, revision
	s.history.compacted, s.history.dropped = revision, revision
	for _, t := range s.topics {
		t.wake(revision)
	}
	return nil
}

// AddIndex is [storage.Indexer].AddIndex.
func (r *Replica) AddIndex(i storage.Index) error { return r.store.AddIndex(i) }
