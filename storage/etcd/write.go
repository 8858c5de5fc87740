package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flyball.dev/storage"
)

// Put implements [storage.Store].
func (s *Store) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	w.Delete = false
	return s.single(ctx, w)
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, key string, revision uint64) (*storage.Record, error) {
	return s.single(ctx, storage.Write{Key: key, Delete: true, If: revision})
}

func (s *Store) single(ctx context.Context, w storage.Write) (*storage.Record, error) {
	records, err := s.Commit(ctx, []storage.Write{w})
	if len(records) == 0 {
		return nil, err
	}
	return records[0], err
}

// Commit implements [storage.Store].
func (s *Store) Commit(ctx context.Context, writes []storage.Write) ([]*storage.Record, error) {
	if err := storage.CheckWrites(writes); err != nil || len(writes) == 0 {
		return nil, err
	}
	if err := s.writable(ctx); err != nil {
		return nil, err
	}
	r, err := s.commit(ctx, writes, func() (clientv3.Txn, error) { return s.transaction(ctx, writes) })
	if err != nil {
		return nil, err
	}
	revision := uint64(r.Header.Revision)
	if err := s.position.wait(ctx, revision); err != nil {
		return nil, err
	}
	if !r.Succeeded {
		return s.refused(ctx, writes, r)
	}
	return s.written(ctx, writes, revision)
}

// commit commits a transaction with writes, which build makes. A lease that the store has chosen may have ended early: somebody
// has revoked it, or this machine was suspended. The transaction then gets another one.
func (s *Store) commit(ctx context.Context, writes []storage.Write, build func() (clientv3.Txn, error)) (*clientv3.TxnResponse, error) {
	for again := slices.ContainsFunc(writes, expires); ; again = false {
		t, err := build()
		if err != nil {
			return nil, err
		}
		r, err := t.Commit()
		switch {
		case err == nil:
			return r, nil
		case !again || !errors.Is(err, rpctypes.ErrLeaseNotFound):
			return nil, translate(err)
		}
		if err := s.leases.forget(ctx); err != nil {
			return nil, err
		}
	}
}

// expires reports whether a write gets a lease that the store chooses.
func expires(w storage.Write) bool { return !w.Delete && w.Lease == 0 && !w.Expires.IsZero() }

// writable returns the error for a write with the given context.
func (s *Store) writable(ctx context.Context) error {
	if err := s.position.failure(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// transaction returns the transaction of etcd for writes. If a condition does not hold, the transaction reads the
// revisions of the keys.
func (s *Store) transaction(ctx context.Context, writes []storage.Write) (clientv3.Txn, error) {
	var conditions []clientv3.Cmp
	var puts, gets []clientv3.Op
	for _, w := range writes {
		if w.Delete && (w.If == storage.Any || w.If == storage.Absent) {
			conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(s.toCluster(w.Key)), ">", 0))
		}
		for _, c := range append([]storage.Condition{{Key: w.Key, If: w.If}}, w.Require...) {
			if c.If != storage.Any {
				conditions = append(conditions, isAt(s.toCluster(c.Key), c.If))
			}
		}
		put, err := s.operation(ctx, w)
		if err != nil {
			return nil, err
		}
		puts = append(puts, put)
		gets = append(gets, clientv3.OpGet(s.toCluster(w.Key), clientv3.WithKeysOnly()))
	}
	return s.client.Txn(ctx).If(conditions...).Then(puts...).Else(gets...), nil
}

// isAt returns the condition that a record is at a revision. A key without a record is at revision zero.
func isAt(key string, revision uint64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", int64(revision))
}

// operation returns the operation of etcd for a write.
func (s *Store) operation(ctx context.Context, w storage.Write) (clientv3.Op, error) {
	switch {
	case w.Delete:
		return clientv3.OpDelete(s.toCluster(w.Key)), nil
	case w.Lease != 0:
		return clientv3.OpPut(s.toCluster(w.Key), string(w.Value), clientv3.WithLease(clientv3.LeaseID(w.Lease))), nil
	case !expires(w):
		return clientv3.OpPut(s.toCluster(w.Key), string(w.Value)), nil
	}
	lease, err := s.leases.until(ctx, w.Expires)
	if err != nil {
		return clientv3.Op{}, translate(err)
	}
	return clientv3.OpPut(s.toCluster(w.Key), string(w.Value), clientv3.WithLease(lease)), nil
}

// written returns the records of writes that have taken place at a revision. The history may have lost them, if the
// replica was loaded again meanwhile.
func (s *Store) written(ctx context.Context, writes []storage.Write, revision uint64) ([]*storage.Record, error) {
	events, err := s.replica.Events(revision)
	if err != nil && !errors.Is(err, storage.ErrCompacted) {
		return nil, err
	}
	byKey := make(map[string]*storage.Record, len(events))
	for _, e := range events {
		byKey[e.Record.Key] = e.Record
	}
	records := make([]*storage.Record, len(writes))
	for i, w := range writes {
		if records[i] = byKey[w.Key]; records[i] == nil {
			records[i], err = s.replica.Get(ctx, w.Key)
		}
		if records[i] == nil || records[i].Revision != revision {
			return nil, fmt.Errorf("the write of %s has taken place at revision %d, and was replaced since: %w", w.Key, revision, errors.Join(err, storage.ErrCompacted))
		}
		if w.OnCommit != nil && !w.Delete {
			w.OnCommit(records[i])
		}
	}
	return records, nil
}

// refused returns the error for a transaction that etcd has refused, with the current records if one of them is the
// reason.
func (s *Store) refused(ctx context.Context, writes []storage.Write, r *clientv3.TxnResponse) ([]*storage.Record, error) {
	err := storage.ErrCondition
	for i, w := range writes {
		var revision uint64
		if kvs := r.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			revision = uint64(kvs[0].ModRevision)
		}
		if w.Delete && revision == 0 {
			err = storage.ErrNotFound
			break
		}
		if w.If != storage.Any && w.If != revision {
			err = storage.ErrConflict
			break
		}
	}
	if errors.Is(err, storage.ErrCondition) {
		return nil, err
	}
	records := make([]*storage.Record, len(writes))
	for i, w := range writes {
		current, getErr := s.replica.Get(ctx, w.Key)
		if getErr != nil && !errors.Is(getErr, storage.ErrNotFound) {
			return nil, getErr
		}
		records[i] = current
	}
	return records, err
}
