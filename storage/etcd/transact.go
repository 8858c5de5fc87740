package etcd

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flyball.dev/storage"
)

var _ storage.Transactor = (*Store)(nil)

// Transact implements [storage.Transactor]. The function reads from the replica at one revision. The writes are a
// transaction of etcd on the condition that all the function has read is unchanged; else the function is called again.
// Each record that the function reads and each write counts as an operation.
func (s *Store) Transact(ctx context.Context, f func(storage.View) ([]storage.Write, error)) (revision uint64, err error) {
	for {
		revision, again, err := s.tryTransact(ctx, f)
		if !again {
			return revision, err
		}
	}
}

// tryTransact calls f with the latest state and carries out its writes. It reports whether the state has changed
// meanwhile.
func (s *Store) tryTransact(ctx context.Context, f func(storage.View) ([]storage.Write, error)) (revision uint64, again bool, err error) {
	if err := s.writable(ctx); err != nil {
		return 0, false, err
	}
	v := &view{store: s, ctx: ctx, guarded: map[string]bool{}}
	if v.compacted, err = s.catchUp(ctx); err != nil {
		return 0, false, err
	}
	if v.latest, v.oldest, err = s.replica.Revisions(ctx); err != nil {
		return 0, false, err
	}
	writes, err := f(v)
	if err == nil {
		err = v.check(writes)
	}
	switch {
	case v.lost: // the replica was loaded again
		return 0, true, nil
	case err != nil || len(writes) == 0:
		return v.latest, false, err
	case max(len(v.guards), len(writes)) > storage.MaxOperations:
		return 0, false, fmt.Errorf("%w: a transaction reads or writes %d records, and at most %d are allowed",
			storage.ErrTooMany, max(len(v.guards), len(writes)), storage.MaxOperations)
	}
	r, err := s.commit(ctx, writes, func() (_ clientv3.Txn, err error) {
		puts := make([]clientv3.Op, len(writes))
		for i, w := range writes {
			if puts[i], err = s.operation(ctx, w); err != nil {
				return nil, err
			}
		}
		return s.client.Txn(ctx).If(v.guards...).Then(puts...), nil
	})
	if err != nil {
		return 0, false, err
	}
	revision = uint64(r.Header.Revision)
	if err := s.position.wait(ctx, revision); err != nil || !r.Succeeded {
		return 0, err == nil, err
	}
	_, err = s.written(ctx, writes, revision)
	return revision, false, err
}

// view is the state of the replica at one revision. It collects the conditions under which the cluster has the same for
// all that was read.
type view struct {
	store          *Store
	ctx            context.Context
	latest, oldest uint64
	compacted      uint64
	guards         []clientv3.Cmp
	// guarded has the keys and the intervals with guards.
	guarded map[string]bool
	// lost is set if the replica does not have the revision any more.
	lost bool
}

// Revisions implements [storage.View].
func (v *view) Revisions() (latest, oldest uint64) { return v.latest, max(v.oldest, v.compacted) }

// CompactRevision returns the compact revision of the cluster.
func (v *view) CompactRevision() uint64 { return v.compacted }

// HasLease implements [storage.View]. The cluster refuses a write with a lease that is not there.
func (v *view) HasLease(int64) bool { return true }

// Range implements [storage.View].
func (v *view) Range(q storage.Query) (storage.Page, error) {
	switch {
	case q.Index != "":
		return storage.Page{}, storage.ErrNoIndex
	case q.Revision > v.latest:
		return storage.Page{}, storage.ErrFuture
	case q.Revision != 0 && q.Revision != v.latest: // which does not change
		return v.store.rangeAt(v.ctx, q)
	}
	q.Revision = v.latest
	page, err := v.store.replica.Range(v.ctx, q)
	if err == nil {
		err = v.guard(q, page)
	}
	v.lost = v.lost || errors.Is(err, storage.ErrCompacted)
	return page, err
}

// guard adds the condition that the records that a query has found are the ones of the cluster.
func (v *view) guard(q storage.Query, page storage.Page) (err error) {
	if page.Remaining > 0 { // their number matters too
		q.Limit, q.Scan = 0, true
		if page, err = v.store.replica.Range(v.ctx, q); err != nil {
			return err
		}
	}
	from, to := bounds(q)
	for _, r := range page.Records {
		v.guardKey(r.Key, r.Revision)
	}
	if to == from+"\x00" {
		v.guardKey(from, storage.Absent) // unless there is a record
		return nil
	}
	for _, i := range v.store.intervals(q) {
		if name := i.low + "\x00\x00" + i.high; !v.guarded[name] {
			v.guarded[name] = true
			v.guards = append(v.guards, clientv3.Compare(clientv3.ModRevision(i.low).WithRange(i.high), "<", int64(v.latest)+1))
		}
	}
	return nil
}

// guardKey adds the condition that a record is at a revision.
func (v *view) guardKey(key string, revision uint64) {
	if !v.guarded[key] {
		v.guarded[key] = true
		v.guards = append(v.guards, isAt(v.store.toCluster(key), revision))
	}
}

// check returns the error of Commit for writes in the state of the view, and guards what it has read.
func (v *view) check(writes []storage.Write) error {
	if err := storage.CheckKeys(writes); err != nil {
		return err
	}
	for _, w := range writes {
		if w.If != storage.Any || w.Delete {
			revision, err := v.revisionOf(w.Key)
			switch {
			case err != nil:
				return err
			case w.Delete && revision == storage.Absent:
				return storage.ErrNotFound
			case w.If != storage.Any && w.If != revision:
				return storage.ErrConflict
			}
		}
	}
	for _, w := range writes {
		for _, c := range w.Require {
			revision, err := v.revisionOf(c.Key)
			if err != nil {
				return err
			}
			if c.If != storage.Any && c.If != revision {
				return storage.ErrCondition
			}
		}
	}
	return nil
}

// revisionOf returns the revision of the record under a key.
func (v *view) revisionOf(key string) (uint64, error) {
	page, err := v.Range(storage.Query{Start: key, End: key + "\x00"})
	if err != nil || len(page.Records) == 0 {
		return storage.Absent, err
	}
	return page.Records[0].Revision, nil
}
