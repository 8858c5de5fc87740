package etcd

import (
	"context"
	"sync"
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

	mu    sync.Mutex
	last  clientv3.LeaseID
	ends  time.Time // when the last lease ends at the earliest
	given int       // how many records have the last lease
}

// until returns a lease that ends at a time, or a little later.
func (l *leases) until(ctx context.Context, end time.Time) (clientv3.LeaseID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
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
