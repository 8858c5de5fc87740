package memory

import (
	"context"

	"flyball.dev/storage"
)

var _ storage.Transactor = (*Store)(nil)

// Transact implements [storage.Transactor].
func (s *Store) Transact(ctx context.Context, f func(storage.View) ([]storage.Write, error)) (revision uint64, err error) {
	for {
		b, wrote, revision, err := s.tryTransact(ctx, f)
		if failure := s.settle(b); failure == nil || wrote {
			if err = errorOf(err, failure); err != nil {
				revision = 0
			}
			return revision, err
		}
		// What f has read was not durable, and was undone.
	}
}

// errorOf returns the first error that is not nil.
func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// tryTransact calls f and carries out its writes. It returns the batch of the latest write that is not durable, on
// which the result rests, whether f has written, and the latest revision.
func (s *Store) tryTransact(ctx context.Context, f func(storage.View) ([]storage.Write, error)) (b *batch, wrote bool, revision uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(ctx); err != nil {
		return nil, false, 0, err
	}
	writes, err := f(view{s})
	if err == nil {
		err = storage.CheckKeys(writes)
	}
	if err == nil && len(writes) > 0 {
		ops := newOperations(writes)
		if _, err = s.check(ops); err == nil {
			s.apply(ops, s.revision+1)
			wrote = true
		}
	}
	return s.commits.unsettled(), wrote, s.revision, err
}

// view is the state of a store with the lock held, with the writes that are not durable yet.
type view struct{ store *Store }

// Revisions implements [storage.View].
func (v view) Revisions() (latest, oldest uint64) { return v.store.revision, v.store.history.compacted }

// Range implements [storage.View].
func (v view) Range(q storage.Query) (storage.Page, error) {
	s := v.store
	switch {
	case q.Index != "":
		return storage.Page{}, storage.ErrNoIndex
	case q.Revision == 0:
		q.Revision = s.revision
	case q.Revision > s.revision:
		return storage.Page{}, storage.ErrFuture
	case q.Revision < s.history.compacted:
		return storage.Page{}, storage.ErrCompacted
	}
	root := s.tree.root // valid until the next write
	if q.Revision != s.revision {
		base, undo, redo := s.nearestSnapshot(q.Revision)
		without := indexedTree{tree: tree{root: base.root}}
		root = without.move(q.Revision, undo, redo).root
	}
	page := root.page(q)
	page.Revision = q.Revision
	for _, r := range page.Records {
		s.wake(r)
	}
	return page, nil
}

// HasLease implements [storage.View].
func (v view) HasLease(id int64) bool { return v.store.leases.has(id) }
