package memory

import (
	"context"

	"flyball.dev/storage"
)

// Range implements [storage.Store].
func (s *Store) Range(_ context.Context, q storage.Query) (storage.Page, error) {
	v, whole, err := s.snapshotFor(q)
	if err != nil {
		return storage.Page{}, err
	}
	root, err := s.rootOf(v, q)
	if err != nil {
		return storage.Page{}, err
	}
	page := root.page(q)
	page.Revision = v.revision
	if page.Remaining > 0 && whole {
		s.cacheSnapshot(v)
	}
	if !q.Scan {
		s.wakeAll(page.Records)
	}
	return page, nil
}

// page returns the records that a query selects, without the revision.
func (n *node) page(q storage.Query) storage.Page {
	from, to := n.span(q.Path, q.Start)
	if q.End != "" {
		to = max(from, min(to, n.rank(q.End)))
	}
	var page storage.Page
	if q.Limit > 0 && to-from > q.Limit {
		page.Remaining = to - from - q.Limit
		to = from + q.Limit
	}
	if from < to {
		page.Records = n.collect(make([]*storage.Record, 0, to-from), from, to)
	}
	return page
}

// span returns the ranks of the records of a path from a key on.
func (n *node) span(path, start string) (from, to int) {
	from, to = n.rank(max(path, start)), n.len()
	if end, bounded := end(path); bounded {
		to = max(from, n.rank(end))
	}
	return from, to
}

// snapshotFor returns a snapshot to read a query from, and whether it is right for other paths too.
func (s *Store) snapshotFor(q storage.Query) (v snapshot, whole bool, err error) {
	if v, ok := s.settledSnapshot(q); ok {
		return v, false, nil
	}
	v, err = s.snapshotAt(q.Revision)
	return v, true, err
}

// settledSnapshot returns the present tree if it has writes that are not visible, but none that the query
// selects. To undo these writes would take longer than most queries.
func (s *Store) settledSnapshot(q storage.Query) (snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := s.pending()
	if s.closed || q.Revision != 0 || len(pending) == 0 {
		return snapshot{}, false
	}
	for _, e := range pending {
		if q.Covers(e.Record.Key) {
			return snapshot{}, false
		}
	}
	return snapshot{s.visible, s.tree.snapshot()}, true
}

// end returns the first string after all keys that a path covers, if such a string exists.
func end(path string) (string, bool) {
	switch last := len(path) - 1; {
	case last < 0:
		return "", false
	case path[last] == '/':
		return path[:last] + string('/'+1), true
	default:
		return path + "\x00", true
	}
}
