package memory

import (
	"slices"

	"flyball.dev/internal/invariants"
	"flyball.dev/storage"
)

// maxSnapshots is the number of cached snapshots. In the worst case, each takes as much memory as the tree without its
// records.
const maxSnapshots = 8

// snapshot is the tree at one revision.
type snapshot struct {
	revision uint64
	roots
}

// snapshots is an LRU cache of the snapshots that pages are read from; the most recently used one is last. The store's
// lock guards it.
type snapshots []snapshot

// snapshotAt returns the tree at a revision; zero means the latest.
func (s *Store) snapshotAt(revision uint64) (snapshot, error) {
	revision, base, t, undo, redo, err := s.visibleSnapshot(revision)
	if err != nil || len(undo)+len(redo) == 0 {
		return base, err
	}
	v := t.move(revision, undo, redo)
	s.cacheSnapshot(v)
	return v, nil
}

// move returns the snapshot at another revision, by undoing or redoing the events between the two.
func (t indexedTree) move(revision uint64, undo, redo []*storage.Event) snapshot {
	for _, e := range slices.Backward(undo) {
		if invariants.Enabled {
			checkCurrent(t.root, e)
		}
		if e.Prev == nil {
			t.remove(e.Record.Key)
		} else {
			t.put(e.Prev)
		}
	}
	for _, e := range redo {
		if e.Type == storage.Deleted {
			t.remove(e.Record.Key)
		} else {
			t.put(e.Record)
		}
		if invariants.Enabled {
			checkCurrent(t.root, e)
		}
	}
	return snapshot{revision, t.snapshot()}
}

// visibleSnapshot returns the snapshot that is nearest to a visible revision, a tree that begins with it, and the events
// between the two. For revision zero it returns the latest revision instead.
func (s *Store) visibleSnapshot(revision uint64) (at uint64, base snapshot, t indexedTree, undo, redo []*storage.Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, base, t, nil, nil, storage.ErrClosed
	case revision > s.visible:
		return 0, base, t, nil, nil, storage.ErrFuture
	case revision == 0:
		revision = s.visible
	case revision < s.history.compacted:
		return 0, base, t, nil, nil, storage.ErrCompacted
	}
	base, undo, redo = s.nearestSnapshot(revision)
	if len(undo)+len(redo) > 0 {
		t = s.tree.at(base.roots)
	}
	return revision, base, t, undo, redo, nil
}

// nearestSnapshot returns the snapshot that is nearest to a revision, and the events between the two: either the ones to
// undo or the ones to redo. The caller holds the lock.
func (s *Store) nearestSnapshot(revision uint64) (base snapshot, undo, redo []*storage.Event) {
	distance := func(v snapshot) uint64 { return max(v.revision, revision) - min(v.revision, revision) }
	base = snapshot{revision: s.revision}
	for _, v := range s.snapshots {
		if distance(v) < distance(base) {
			base = v
		}
	}
	if base.revision == s.revision {
		base.roots = s.tree.snapshot()
	}
	if base.revision > revision {
		undo = s.history.between(revision, base.revision)
	} else {
		redo = s.history.between(base.revision, revision)
	}
	return base, undo, redo
}

// cacheSnapshot caches a snapshot, or marks it as the most recently used.
func (s *Store) cacheSnapshot(v snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || v.revision < s.history.compacted {
		return
	}
	kept := slices.DeleteFunc(s.snapshots, func(other snapshot) bool { return other.revision == v.revision })
	if len(kept) == maxSnapshots {
		kept = slices.Delete(kept, 0, 1)
	}
	s.snapshots = append(kept, v)
}

// compact drops the snapshots before a revision.
func (s *snapshots) compact(revision uint64) {
	*s = slices.DeleteFunc(*s, func(v snapshot) bool { return v.revision < revision })
}
