package memory

import (
	"container/heap"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"flyball.dev/storage"
)

var _ storage.Lessor = (*Store)(nil)

// LeaseChange is a lease that was granted or, without a time to live, revoked.
type LeaseChange struct {
	ID  int64
	TTL time.Duration
}

// leases are the leases of a store, with one timer for the next one that expires. The store's lock guards them.
type leases struct {
	byID  map[int64]*lease
	queue leaseQueue
	timer *time.Timer
	// loading is set while the store is loaded: there is no queue then, and records may be attached to unknown leases.
	loading bool
}

// lease is a lease with the keys of the records that are attached to it.
type lease struct {
	storage.Lease
	keys  map[string]bool
	index int // in the queue
}

// leaseChange is a lease that was granted or, with revoked, revoked.
type leaseChange struct {
	lease   *lease
	revoked bool
}

// changes returns changes for the journal.
func changes(all []leaseChange) []LeaseChange {
	changes := make([]LeaseChange, len(all))
	for i, c := range all {
		changes[i].ID = c.lease.ID
		if !c.revoked {
			changes[i].TTL = c.lease.TTL
		}
	}
	return changes
}

// leaseQueue is a heap of leases, the first to expire first.
type leaseQueue []*lease

func (q leaseQueue) Len() int           { return len(q) }
func (q leaseQueue) Less(i, j int) bool { return q[i].Expires.Before(q[j].Expires) }
func (q leaseQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *leaseQueue) Push(x any) {
	l := x.(*lease)
	l.index = len(*q)
	*q = append(*q, l)
}

func (q *leaseQueue) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return l
}

func (x *leases) has(id int64) bool { return x.byID[id] != nil }

// add adds a lease.
func (x *leases) add(l *lease) {
	x.byID[l.ID] = l
	heap.Push(&x.queue, l)
}

// remove removes a lease.
func (x *leases) remove(l *lease) {
	delete(x.byID, l.ID)
	heap.Remove(&x.queue, l.index)
}

// undo undoes changes.
func (x *leases) undo(s *Store, changes []leaseChange) {
	for _, c := range slices.Backward(changes) {
		if c.revoked {
			x.add(c.lease)
		} else {
			x.remove(c.lease)
		}
	}
	x.arm(s)
}

// undoCopies undoes changes of the leases that these are copies of.
func (x *leases) undoCopies(changes []leaseChange) {
	for _, c := range slices.Backward(changes) {
		if c.revoked {
			x.add(&lease{Lease: c.lease.Lease, keys: maps.Clone(c.lease.keys)})
		} else {
			x.remove(x.byID[c.lease.ID])
		}
	}
}

// replace attaches and detaches the key of an event.
func (x *leases) replace(e *storage.Event) {
	if e.Prev != nil {
		x.detach(e.Prev)
	}
	if e.Type != storage.Deleted {
		x.attach(e.Record)
	}
}

// undoEvent undoes replace.
func (x *leases) undoEvent(e *storage.Event) {
	if e.Type != storage.Deleted {
		x.detach(e.Record)
	}
	if e.Prev != nil {
		x.attach(e.Prev)
	}
}

func (x *leases) attach(r *storage.Record) {
	l := x.byID[r.Lease]
	if r.Lease == 0 || l == nil {
		return
	}
	if l.keys == nil {
		l.keys = map[string]bool{}
	}
	l.keys[r.Key] = true
}

func (x *leases) detach(r *storage.Record) {
	if l := x.byID[r.Lease]; r.Lease != 0 && l != nil {
		delete(l.keys, r.Key)
	}
}

// begin ends the loading: the leases expire after their time to live.
func (x *leases) begin(s *Store) {
	x.loading = false
	for _, l := range x.byID {
		l.Expires = time.Now().Add(l.TTL)
		heap.Push(&x.queue, l)
	}
	if len(x.byID) > 0 {
		for _, r := range s.tree.root.collect(nil, 0, s.tree.root.len()) {
			x.attach(r)
		}
	}
	x.arm(s)
}

// clone returns a copy without a timer.
func (x *leases) clone() leases {
	c := leases{byID: make(map[int64]*lease, len(x.byID))}
	for _, l := range x.queue {
		c.add(&lease{Lease: l.Lease, keys: maps.Clone(l.keys)})
	}
	return c
}

// next returns the lease that expires next, or nil.
func (x *leases) next() *lease {
	if len(x.queue) == 0 {
		return nil
	}
	return x.queue[0]
}

// arm sets the timer for the lease that expires next.
func (x *leases) arm(s *Store) {
	if next := x.next(); next == nil || s.closed {
		x.stop()
	} else {
		x.armAt(s, next.Expires)
	}
}

// armAt sets the timer.
func (x *leases) armAt(s *Store, at time.Time) {
	if x.timer == nil {
		x.timer = time.AfterFunc(until(at), s.expireLeases)
	} else {
		x.timer.Reset(until(at))
	}
}

func (x *leases) stop() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// Grant implements [storage.Lessor].
func (s *Store) Grant(ctx context.Context, id int64, ttl time.Duration) (granted storage.Lease, err error) {
	err = s.changeLeases(ctx, func() (bool, error) {
		if s.leases.has(id) {
			return false, storage.ErrLeaseExists
		}
		l := &lease{Lease: storage.Lease{ID: id, TTL: ttl, Expires: time.Now().Add(ttl)}}
		s.leases.add(l)
		s.noteLease(leaseChange{lease: l})
		s.leases.arm(s)
		granted = l.Lease
		return true, nil
	})
	return granted, err
}

// Revoke implements [storage.Lessor].
func (s *Store) Revoke(ctx context.Context, id int64) (revision uint64, err error) {
	err = s.changeLeases(ctx, func() (bool, error) {
		l := s.leases.byID[id]
		if l == nil {
			return false, storage.ErrNoLease
		}
		s.revoke(l)
		s.leases.arm(s)
		revision = s.revision
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	return revision, nil
}

// Renew implements [storage.Lessor].
func (s *Store) Renew(ctx context.Context, id int64) (renewed storage.Lease, err error) {
	err = s.readLeases(ctx, func() error {
		l := s.leases.byID[id]
		if l == nil {
			return storage.ErrNoLease
		}
		if !l.Expires.After(time.Now()) {
			return errExpired
		}
		l.Expires = time.Now().Add(l.TTL)
		heap.Fix(&s.leases.queue, l.index)
		s.leases.arm(s)
		renewed = l.Lease
		return nil
	})
	if errors.Is(err, errExpired) {
		s.expireLeases() // before anybody knows
		err = storage.ErrNoLease
	}
	return renewed, err
}

// errExpired means that a lease has expired and is not revoked yet.
var errExpired = errors.New("storage: lease expired")

// Lease implements [storage.Lessor].
func (s *Store) Lease(ctx context.Context, id int64) (found storage.Lease, keys []string, err error) {
	err = s.readLeases(ctx, func() error {
		l := s.leases.byID[id]
		if l == nil {
			return storage.ErrNoLease
		}
		found, keys = l.Lease, slices.Sorted(maps.Keys(l.keys))
		return nil
	})
	return found, keys, err
}

// Leases implements [storage.Lessor].
func (s *Store) Leases(ctx context.Context) (all []storage.Lease, err error) {
	err = s.readLeases(ctx, func() error {
		all = all[:0]
		for _, l := range s.leases.queue {
			all = append(all, l.Lease)
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b storage.Lease) int { return a.Expires.Compare(b.Expires) })
	return all, err
}

// changeLeases calls f with the lock held, and waits until the change is durable. The function f returns whether it has
// changed a lease; if not, changeLeases calls it again when what it has read turns out not to be durable.
func (s *Store) changeLeases(ctx context.Context, f func() (bool, error)) error {
	for {
		b, changed, err := s.locked(func() (bool, error) {
			if err := s.writable(ctx); err != nil {
				return false, err
			}
			return f()
		})
		if failure := s.settle(b); failure == nil || changed {
			return errorOf(err, failure)
		}
	}
}

// readLeases calls f with the lock held, and waits until what it has read is durable. It may call f several times.
func (s *Store) readLeases(_ context.Context, f func() error) error {
	for {
		b, _, err := s.locked(func() (bool, error) {
			if s.closed {
				return false, storage.ErrClosed
			}
			return false, f()
		})
		if s.settle(b) == nil {
			return err
		}
	}
}

// locked calls f with the lock held, and returns the batch of the latest write that is not durable.
func (s *Store) locked(f func() (bool, error)) (b *batch, changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, err = f()
	return s.commits.unsettled(), changed, err
}

// noteLease gives a change to the journal. The lock is held.
func (s *Store) noteLease(c leaseChange) {
	if s.commits.journal != nil {
		b := s.commits.batch()
		b.leases = append(b.leases, c)
	}
}

// revoke removes a lease and its records. The caller sets the timer, once for all leases that end together. The lock is held.
func (s *Store) revoke(l *lease) {
	var ops []operation
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		ops = append(ops, operation{Write: storage.Write{Key: key, Delete: true}, old: s.tree.root.get(key)})
	}
	if len(ops) > 0 {
		s.apply(ops, s.revision+1)
	}
	s.leases.remove(l)
	s.noteLease(leaseChange{lease: l, revoked: true})
}

// expireLeases revokes the leases that have expired. The timer calls it.
func (s *Store) expireLeases() {
	b, _, _ := s.locked(func() (bool, error) {
		now := time.Now()
		for l := s.leases.next(); l != nil && !s.closed && !l.Expires.After(now); l = s.leases.next() {
			s.revoke(l)
		}
		s.leases.arm(s)
		return true, nil
	})
	_ = s.settle(b) // after an error, the timer runs again
}
