package memory

import (
	"flyball.dev/internal/invariants"
	"flyball.dev/storage"
)

// The checks in this file run only if invariants.Enabled is set. The caller holds the lock, except where a check takes
// a snapshot.

// checkCommit checks the latest transaction: its writes have the latest revision, each event follows from the previous
// event of its key, and the tree is consistent on the paths to the keys.
func (s *Store) checkCommit(events []*storage.Event) {
	for _, e := range events {
		s.checkEvent(e)
	}
	s.checkHistory()
}

// checkEvent checks an event of the latest transaction.
func (s *Store) checkEvent(e *storage.Event) {
	r := e.Record
	invariants.Check(r.Revision == s.revision, "a write at revision %d has revision %d", s.revision, r.Revision)
	invariants.Check((e.Type == storage.Created) == (e.Prev == nil), "event of type %d with previous record %v",
		e.Type, e.Prev)
	if e.Prev == nil {
		invariants.Check(r.Created == r.Revision && r.Version == 1, "version %d of %s is created at revision %d, not %d",
			r.Version, r.Key, r.Revision, r.Created)
	} else {
		invariants.Check(e.Prev.Key == r.Key && e.Prev.Revision < r.Revision && e.Prev.Created == r.Created,
			"%s at revision %d follows %s at %d", r.Key, r.Revision, e.Prev.Key, e.Prev.Revision)
	}
	checkCurrent(s.tree.root, e)
	checkPath(s.tree.root, r.Key)
	for i := range s.tree.indexes {
		s.tree.indexes[i].check(e)
	}
}

// check checks that the index has the record of an event, the latest one of its key, once or not at all.
func (i *index) check(e *storage.Event) {
	key, value := e.Record.Key, i.value(e.Record)
	if e.Prev != nil {
		if old := i.value(e.Prev); old != "" && (old != value || e.Type == storage.Deleted) {
			records := recordsOf(i.tree.root, old)
			invariants.Check(records.get(key) == nil, "%s is in index %s as it was before revision %d", key, i.Name, e.Record.Revision)
			invariants.Check((records == nil) == (i.tree.root.find(old) == nil), "index %s has the value %s without records", i.Name, old)
		}
	}
	if value != "" && e.Type != storage.Deleted {
		records := recordsOf(i.tree.root, value)
		invariants.Check(records.get(key) == e.Record, "%s is not in index %s", key, i.Name)
		checkPath(i.tree.root, value)
		checkPath(records, key)
	}
}

// checkHistory checks that the log has events for each revision after the compacted one. The revisions of a replica may
// have gaps.
func (s *Store) checkHistory() {
	h := &s.history
	invariants.Check(s.replica || h.compacted+uint64(len(h.log)) >= s.revision, "%d events follow revision %d, and the store is at %d",
		len(h.log), h.compacted, s.revision)
	if len(h.log) > 0 {
		first, last := h.log[0].Record.Revision, h.log[len(h.log)-1].Record.Revision
		invariants.Check(s.replica || first == h.compacted+1 && last == s.revision, "the log is from revision %d to %d, not from %d to %d",
			first, last, h.compacted+1, s.revision)
	}
	invariants.Check(h.dropped >= h.compacted && h.dropped <= s.revision,
		"cached values are dropped up to revision %d of %d", h.dropped, s.revision)
}

// checkCurrent checks that an event is the latest one of its key in a tree. The record may be another than the one of the
// event: undoing a later write puts a copy into the tree.
func checkCurrent(root *node, e *storage.Event) {
	got := root.get(e.Record.Key)
	if e.Type == storage.Deleted {
		invariants.Check(got == nil, "%s is %v after its deletion at revision %d", e.Record.Key, got, e.Record.Revision)
		return
	}
	invariants.Check(got != nil && got.Revision == e.Record.Revision && got.Created == e.Record.Created,
		"%s is %v after the event of revision %d", e.Record.Key, got, e.Record.Revision)
}

// checkPath checks the nodes on the path to a key: the number of items of each, the order of the keys, and the sizes.
func checkPath(n *node, key string) {
	for n != nil {
		invariants.Check(n.width() > 0 && n.width() < fanout, "a node has %d items", n.width())
		for i := 1; i < n.width(); i++ {
			invariants.Check(n.key(i-1) < n.key(i), "%q is before %q", n.key(i-1), n.key(i))
		}
		invariants.Check(n.size == n.count(), "a node of %d records has size %d", n.count(), n.size)
		if n.leaf {
			return
		}
		n = n.items[max(n.search(key)-1, 0)].child
	}
}

// checkNext checks that the log continues at the watcher's position, so that the watcher gets each event exactly once.
func (w *watcher) checkNext(e *storage.Event) {
	invariants.Check(w.store.replica || e.Record.Revision == w.next, "the watcher of %q is at revision %d, and the next event has %d",
		w.path, w.next, e.Record.Revision)
}
