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
	from := v.root.rank(max(q.Path, q.Start))
	to := v.root.len()
	if end, bounded := end(q.Path); bounded {
		to = max(from, v.root.rank(end))
	}
	page := storage.Page{Revision: v.revision}
	if q.Limit > 0 && to-from > q.Limit {
		page.Remaining = to - from - q.Limit
		to = from + q.Limit
		if whole {
			s.cacheSnapshot(v)
		}
	}
	if from < to {
		page.Records = v.root.collect(make([]*storage.Record, 0, to-from), from, to)
		s.wakeAll(page.Records)
	}
	return page, nil
}

// snapshotFor returns a snapshot to read a query from, and whether it is right for other paths too.
func (s *Store) snapshotFor(q storage.Query) (v snapshot, whole bool, err error) {
	if v, ok := s.settledSnapshot(q); ok {
		return v, false, nil
	}
	v, err = s.snapshotAt(q.Revision)
	return v, true, err
}

// settledSnapshot returns the present tree if it has writes that are not visible, but none to the path of
// the query. To undo these writes would take longer than most queries.
func (s *Store) settledSnapshot(q storage.Query) (snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := s.pending()
	if s.closed || q.Revision != 0 || len(pending) == 0 {
		return snapshot{}, false
	}
	for _, e := range pending {
		if storage.Covers(q.Path, e.Record.Key) {
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
