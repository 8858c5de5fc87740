package memory

import (
	"context"
	"fmt"
	"time"

	"flyball.dev/storage"
)

// Loader builds a store from what a journal has kept: first the records of one revision, then the
// writes since. It is used by one goroutine, and by none after Store.
type Loader struct {
	store   *Store
	journal Journal
	leased  []string // the keys of the records of the first revision that have a lease
	opened  time.Time
	set     time.Duration // by how much the wall clock was set after the first records
}

// NewLoader returns a loader of a store with options. Their journal gets none of the loaded records.
func NewLoader(o Options) *Loader {
	l := &Loader{journal: o.Journal, opened: time.Now()}
	o.Journal = nil
	l.store = New(o)
	l.store.expiry.paused, l.store.leases.loading = true, true
	return l
}

// Record adds a record of the first revision. Records come before the call of At, in any order; the order
// of their keys is the fastest. The value belongs to the store from then on.
func (l *Loader) Record(r storage.Record, value []byte) {
	s := l.store
	e := newEntry(r.Key, value)
	e.Created, e.Revision, e.Version, e.Expires, e.Lease = r.Created, r.Revision, r.Version, l.expires(r.Expires), r.Lease
	s.tree.put(&e.Record)
	s.compression.add(s, e)
	if !e.Expires.IsZero() {
		s.expiry.enqueue(&e.Record)
	}
	if r.Lease != 0 {
		l.leased = append(l.leased, r.Key)
	}
}

// expires returns the expiration time of a record with a monotonic reading, so that it stays right if the wall clock is set
// later.
func (l *Loader) expires(t time.Time) time.Time {
	if t.IsZero() || t != t.Round(0) { // it has a monotonic reading
		return t
	}
	return l.opened.Add(t.Sub(l.opened) - l.set)
}

// ClockSet says that the wall clock was set forward by a duration, or back by a negative one, after what was loaded was written
// and before what follows was.
func (l *Loader) ClockSet(by time.Duration) { l.set += by }

// adjust makes all records expire by the wall clock as it was last set.
func (l *Loader) adjust() {
	if l.set == 0 {
		return
	}
	x := &l.store.expiry
	n := x.queue.root
	x.queue = tree{}
	for _, r := range n.collect(nil, 0, n.len()) {
		r.Expires = r.Expires.Add(l.set)
		x.enqueue(r)
	}
}

// Leases adds changes of leases, after the transactions of earlier calls of the journal and before the ones of its own
// call. With all, the changes are all leases that there are.
func (l *Loader) Leases(all bool, changes []LeaseChange) {
	x := &l.store.leases
	if all {
		clear(x.byID)
	}
	for _, c := range changes {
		if c.TTL > 0 {
			x.byID[c.ID] = &lease{Lease: storage.Lease{ID: c.ID, TTL: c.TTL}}
		} else {
			delete(x.byID, c.ID)
		}
	}
}

// AllLeases returns the leases that there are.
func (l *Loader) AllLeases() (changes []LeaseChange) {
	for id, found := range l.store.leases.byID {
		changes = append(changes, LeaseChange{id, found.TTL})
	}
	return changes
}

// At sets the revision of the records. What was written before it is compacted.
func (l *Loader) At(revision uint64) {
	s := l.store
	s.revision, s.visible = revision, revision
	s.history.compacted, s.history.dropped = revision, revision
}

// Commit adds a transaction at the next revision.
//
// Possible errors: ErrKey, ErrNotFound for the deletion of a key without a record, ErrConflict.
func (l *Loader) Commit(writes []storage.Write) error {
	err := storage.CheckKeys(writes)
	if err == nil {
		ops := newOperations(writes)
		for i := range ops {
			if !ops[i].Delete {
				ops[i].entry.Expires = l.expires(ops[i].Expires)
			}
		}
		err = l.store.write(context.Background(), ops)
	}
	if err != nil {
		return fmt.Errorf("revision %d: %w", l.store.revision+1, err)
	}
	return nil
}

// Compact compacts the history at a revision that the store has reached.
func (l *Loader) Compact(revision uint64) error {
	return l.store.Compact(context.Background(), revision)
}

// Revision returns the revision of the latest write.
func (l *Loader) Revision() uint64 { return l.store.revision }

// Len returns how many records there are.
func (l *Loader) Len() int { return l.store.tree.root.len() }

// Records returns the records in the order of their keys.
func (l *Loader) Records() []*storage.Record {
	root := l.store.tree.root
	return root.collect(nil, 0, root.len())
}

// Store returns the store, which deletes expired records from now on.
func (l *Loader) Store() *Store {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits.journal = l.journal
	for _, key := range l.leased {
		if r := s.tree.root.get(key); r != nil && !s.leases.has(r.Lease) {
			r.Lease = 0 // a snapshot in a file has no leases
		}
	}
	l.adjust()
	s.expiry.paused = false
	s.expiry.arm(s)
	s.leases.begin(s)
	return s
}

// Close releases a store that could not be loaded.
func (l *Loader) Close() error { return l.store.Close() }
