package memory

import (
	"context"

	"flyball.dev/storage"
)

// Range implements [storage.Store].
func (s *Store) Range(_ context.Context, q storage.Query) (storage.Page, error) {
	v, err := s.snapshotAt(q.Revision)
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
		s.cacheSnapshot(v)
	}
	if from < to {
		page.Records = v.root.collect(make([]*storage.Record, 0, to-from), from, to)
		s.wakeAll(page.Records)
	}
	return page, nil
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
