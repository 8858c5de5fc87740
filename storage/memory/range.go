package memory

import (
	"context"
	"slices"
	"strings"

	"github.com/google/btree"

	"flyball.dev/storage"
)

// Range implements [storage.Store].
func (s *Store) Range(_ context.Context, q storage.Query) (storage.Page, error) {
	tree, since, revision, err := s.view(q.Revision)
	if err != nil {
		return storage.Page{}, err
	}
	page := storage.Page{Revision: revision}
	take := func(r *storage.Record) {
		switch {
		case r == nil:
		case q.Limit > 0 && len(page.Records) == q.Limit:
			page.Remaining++
		default:
			page.Records = append(page.Records, r)
		}
	}
	from := max(q.Path, q.Start)
	past := undo(since, q.Path, from)
	tree.AscendGreaterOrEqual(entry{key: from}, func(e entry) bool {
		if !storage.Covers(q.Path, e.key) {
			return false
		}
		for len(past) > 0 && past[0].key < e.key {
			take(past[0].record)
			past = past[1:]
		}
		if len(past) > 0 && past[0].key == e.key {
			e = past[0]
			past = past[1:]
		}
		take(e.record)
		return true
	})
	for _, e := range past {
		take(e.record)
	}
	return page, nil
}

// view returns a snapshot of the tree, with the events since the revision that was asked for.
func (s *Store) view(revision uint64) (*btree.BTreeG[entry], []*storage.Event, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, 0, storage.ErrClosed
	case revision > s.revision:
		return nil, nil, 0, storage.ErrFuture
	case revision == 0:
		revision = s.revision
	case revision < s.compacted:
		return nil, nil, 0, storage.ErrCompacted
	}
	if s.snapshot == nil {
		s.snapshot = s.tree.Clone()
	}
	return s.snapshot, s.log[revision-s.compacted:], revision, nil
}

// undo returns the records of a path as they were before the events, those that have changed since and
// are not before the key from, ordered by key. A record that was not there is nil.
func undo(events []*storage.Event, path, from string) []entry {
	var past []entry
	seen := map[string]bool{}
	for _, e := range events {
		key := e.Record.Key
		if key >= from && storage.Covers(path, key) && !seen[key] {
			seen[key] = true
			past = append(past, entry{key, e.Prev})
		}
	}
	slices.SortFunc(past, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	return past
}
