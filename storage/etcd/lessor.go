package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flyball.dev/storage"
)

var _ storage.Lessor = (*Store)(nil)

// Grant implements [storage.Lessor]. The cluster counts the time in seconds, and has a shortest time.
func (s *Store) Grant(ctx context.Context, id int64, ttl time.Duration) (storage.Lease, error) {
	if err := s.writable(ctx); err != nil {
		return storage.Lease{}, err
	}
	now := time.Now()
	r, err := clientv3.RetryLeaseClient(s.client).LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{ID: id, TTL: int64((ttl + time.Second - 1) / time.Second)})
	if err != nil {
		return storage.Lease{}, translate(clientv3.ContextError(ctx, err))
	}
	granted := time.Duration(r.TTL) * time.Second
	return storage.Lease{ID: r.ID, TTL: granted, Expires: now.Add(granted)}, nil
}

// Revoke implements [storage.Lessor].
func (s *Store) Revoke(ctx context.Context, id int64) (revision uint64, err error) {
	if err := s.writable(ctx); err != nil {
		return 0, err
	}
	r, err := s.client.Revoke(ctx, clientv3.LeaseID(id))
	if err != nil {
		return 0, translate(err)
	}
	revision = uint64(r.Header.Revision)
	return revision, s.position.wait(ctx, revision)
}

// Renew implements [storage.Lessor].
func (s *Store) Renew(ctx context.Context, id int64) (storage.Lease, error) {
	if err := s.position.failure(); err != nil {
		return storage.Lease{}, err
	}
	now := time.Now()
	r, err := s.client.KeepAliveOnce(ctx, clientv3.LeaseID(id))
	if err != nil {
		return storage.Lease{}, translate(err)
	}
	ttl := time.Duration(r.TTL) * time.Second
	return storage.Lease{ID: id, TTL: ttl, Expires: now.Add(ttl)}, nil
}

// Lease implements [storage.Lessor].
func (s *Store) Lease(ctx context.Context, id int64) (storage.Lease, []string, error) {
	if err := s.position.failure(); err != nil {
		return storage.Lease{}, nil, err
	}
	now := time.Now()
	r, err := s.client.TimeToLive(ctx, clientv3.LeaseID(id), clientv3.WithAttachedKeys())
	switch {
	case err != nil:
		return storage.Lease{}, nil, translate(err)
	case r.TTL < 0:
		return storage.Lease{}, nil, storage.ErrNoLease
	}
	var keys []string
	for _, key := range r.Keys {
		if key, ok := s.fromCluster(string(key)); ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return storage.Lease{ID: id, TTL: time.Duration(r.GrantedTTL) * time.Second, Expires: now.Add(time.Duration(r.TTL) * time.Second)}, keys, nil
}

// Leases implements [storage.Lessor]. It asks the cluster about each lease.
func (s *Store) Leases(ctx context.Context) (all []storage.Lease, err error) {
	if err := s.position.failure(); err != nil {
		return nil, err
	}
	r, err := s.client.Leases(ctx)
	if err != nil {
		return nil, translate(err)
	}
	for _, status := range r.Leases {
		l, _, err := s.Lease(ctx, int64(status.ID))
		switch {
		case err == nil:
			all = append(all, l)
		case !errors.Is(err, storage.ErrNoLease):
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b storage.Lease) int { return a.Expires.Compare(b.Expires) })
	return all, nil
}

// leaseError returns the error of the contract for an error of etcd about leases, or nil.
func leaseError(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return storage.ErrNoLease
	case errors.Is(err, rpctypes.ErrLeaseExist):
		return storage.ErrLeaseExists
	}
	return nil
}
