package snapshot

import (
	"context"
	"errors"
	"time"

	"flyball.dev/storage"
)

// Expiring returns records of a store for a snapshot that other stores are made from. They have no leases: a record with a lease
// expires when the lease ends, as far as the store knows at present. In an etcd cluster, this is so for all records that
// expire.
//
// Possible errors: the errors of [storage.Lessor].Lease.
func Expiring(ctx context.Context, s storage.Store, records []*storage.Record) ([]*storage.Record, error) {
	type lease struct {
		of storage.Store
		id int64
	}
	ends := map[lease]time.Time{}
	expiring := make([]*storage.Record, len(records))
	for i, r := range records {
		expiring[i] = r
		if r.Lease == 0 {
			continue
		}
		l := lease{storage.Partition(s, r.Key), r.Lease}
		end, known := ends[l]
		if !known {
			var err error
			if end, err = endOf(ctx, l.of, l.id); err != nil {
				return nil, err
			}
			ends[l] = end
		}
		copied := *r
		copied.Lease = 0
		if !end.IsZero() && (r.Expires.IsZero() || end.Before(r.Expires)) {
			copied.Expires = end
		}
		expiring[i] = &copied
	}
	return expiring, nil
}

// endOf returns when a lease ends, zero if the store does not know leases. A lease that is not there has just ended.
func endOf(ctx context.Context, s storage.Store, id int64) (time.Time, error) {
	lessor, ok := s.(storage.Lessor)
	if !ok {
		return time.Time{}, nil
	}
	l, _, err := lessor.Lease(ctx, id)
	if errors.Is(err, storage.ErrNoLease) {
		return time.Now(), nil
	}
	return l.Expires, err
}
