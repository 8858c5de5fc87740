package storage

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrNoLease means that there is no lease with the ID.
	ErrNoLease = errors.New("storage: lease not found")
	// ErrLeaseExists means that there is a lease with the ID already.
	ErrLeaseExists = errors.New("storage: lease exists")
)

// Lease is a time to live that several records share, and that a client renews.
type Lease struct {
	ID int64
	// TTL is the time from the grant, or from a renewal, to the end.
	TTL time.Duration
	// Expires is when the store revokes the lease.
	Expires time.Time
}

// Lessor is a [Store] with leases, as in etcd. A write with a lease attaches the record to it, and fails with ErrNoLease
// if there is none; the next write of the key detaches the record from it. Leases have no revisions.
type Lessor interface {
	Store

	// Grant makes a lease. The ID is not zero, and the time to live is positive.
	//
	// Possible errors: ErrLeaseExists, ErrFenced, ErrClosed, the error of the context.
	Grant(ctx context.Context, id int64, ttl time.Duration) (Lease, error)

	// Revoke deletes a lease and, at one revision and in the order of their keys, the records attached to it. It returns
	// this revision; without records, the latest revision at that time.
	//
	// Possible errors: ErrNoLease, ErrFenced, ErrClosed, the error of the context.
	Revoke(ctx context.Context, id int64) (revision uint64, err error)

	// Renew makes a lease expire after its time to live from now. A store that is opened anew renews all leases.
	//
	// Possible errors: ErrNoLease, ErrClosed.
	Renew(ctx context.Context, id int64) (Lease, error)

	// Lease returns a lease and the keys attached to it, in order.
	//
	// Possible errors: ErrNoLease, ErrClosed.
	Lease(ctx context.Context, id int64) (Lease, []string, error)

	// Leases returns all leases, the first to expire first.
	//
	// Possible errors: ErrClosed.
	Leases(ctx context.Context) ([]Lease, error)
}
