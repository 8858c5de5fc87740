package memory

import (
	"slices"

	"flyball.dev/storage"
)

// Fork returns a new store with the same records at the same revision, in constant time whatever their number. The two stores share the
// records, and the nodes of the tree until one of them changes a node; neither observes the other. The new store has the
// options of s, and no history: it can be watched and read from the present revision. It has no journal; of s, it has what the
// journal has made durable.
//
// Possible errors: ErrClosed.
func (s *Store) Fork() (*Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, storage.ErrClosed
	}
	f := New(Options{History: s.history.size, Retention: s.history.retention, CompressAfter: s.compression.interval})
	f.mu.Lock() // its timer may fire at once
	defer f.mu.Unlock()
	f.revision, f.visible = s.visible, s.visible
	f.history.compacted, f.history.dropped = s.visible, s.visible
	f.tree = s.tree.at(s.tree.snapshot())
	f.expiry.queue = tree{root: s.expiry.queue.snapshot()}
	s.history.dropCached(s.revision) // of replaced records, which no longer differ from shared ones
	f.history.shared, s.history.shared = s.revision, s.revision
	f.leases = s.leases.clone()
	for _, b := range []*batch{s.commits.open, s.commits.flushing} {
		if b != nil {
			f.leases.undoCopies(b.leases)
		}
	}
	for _, e := range slices.Backward(s.pending()) {
		f.undo(e)
	}
	f.expiry.arm(f)
	f.leases.arm(f)
	return f, nil
}

// isShared reports whether another store may have a record too. A store never retires a shared record or drops its
// cached values, because the record may be current in the other store. Both stores may make it idle and compress it,
// which readers do not observe.
func (h *history) isShared(r *storage.Record) bool { return r.Revision <= h.shared }
