package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// A lease is given to several records, because a lease is expensive. Records may expire later than they should, by
	// up to one leaseShare-th of the time that is left and at most maxLeaseDelay.
	leaseShare    = 20
	maxLeaseDelay = time.Minute
	// maxLeased is the largest number of records with one lease.
	maxLeased = 1000
)

// leases grants leases.
type leases struct {
	client *clientv3.Client
	// granting has a value while a goroutine uses the fields below. It may wait for the cluster.
	granting chan struct{}

	last  clientv3.LeaseID
	ends  time.Time // when the last lease ends at the earliest
	given int       // how many records have the last lease
}

// forget makes the next record get a new lease.
func (l *leases) forget(ctx context.Context) error {
	select {
	case l.granting <- struct{}{}:
		l.given = maxLeased
		<-l.granting
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// until returns a lease that ends at a time, or a little later.
func (l *leases) until(ctx context.Context, end time.Time) (clientv3.LeaseID, error) {
	select {
	case l.granting <- struct{}{}:
		defer func() { <-l.granting }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	left := max(time.Until(end), 0)
	delay := min(left/leaseShare, maxLeaseDelay)
	if l.given < maxLeased && !l.ends.Before(end) && !l.ends.After(end.Add(delay)) {
		l.given++
		return l.last, nil
	}
	seconds := int64((left+delay)/time.Second) + 1
	now := time.Now()
	granted, err := l.client.Grant(ctx, seconds)
	if err != nil {
		return 0, err
	}
	l.last, l.ends, l.given = granted.ID, now.Add(time.Duration(granted.TTL)*time.Second), 1
	return granted.ID, nil
}
