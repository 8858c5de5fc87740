package memory

import (
	"slices"
	"strings"

	"flyball.dev/storage"
)

var _ storage.Indexer = (*Store)(nil)

// indexedTree is the tree of the records by key, with a tree for each index.
type indexedTree struct {
	tree
	indexes []index
}

// index is the tree of an index, by the indexed values. Each value has a tree of its records by key, which has the same owner.
type index struct {
	storage.Index
	tree tree
}

// roots are the roots of an indexedTree at one time, which never change.
type roots struct {
	root    *node
	indexes []*node
}

// value returns the value of a record, or "" if the record is not in the index.
func (i *index) value(r *storage.Record) string {
	if !storage.Covers(i.Path, r.Key) {
		return ""
	}
	return i.Of(r)
}

// recordsOf returns the root of the records with a value in the tree of an index.
func recordsOf(root *node, value string) *node {
	if it := root.find(value); it != nil {
		return it.child
	}
	return nil
}

// change changes the records with a value.
func (i *index) change(value string, f func(*tree)) {
	if i.tree.owner == nil {
		i.tree.owner = &owner{}
	}
	records := tree{owner: i.tree.owner}
	if it := i.tree.root.find(value); it != nil {
		value, records.root = it.key, it.child
	} else {
		value = strings.Clone(value) // it may be part of a record
	}
	if f(&records); records.root == nil {
		i.tree.remove(value)
	} else {
		i.tree.set(item{key: value, child: records.root})
	}
}

// put adds a record or replaces the current one with its key.
func (t *indexedTree) put(r *storage.Record) {
	t.reindex(r.Key, r)
	t.tree.put(r)
}

// remove deletes the record under key, if there is one.
func (t *indexedTree) remove(key string) {
	t.reindex(key, nil)
	t.tree.remove(key)
}

// reindex puts the next record under a key in the indexes, in place of the current one. If next is nil, there is none.
func (t *indexedTree) reindex(key string, next *storage.Record) {
	for n := range t.indexes {
		i := &t.indexes[n]
		if !storage.Covers(i.Path, key) {
			continue
		}
		var value string
		if next != nil {
			value = i.value(next)
		}
		if current := t.root.get(key); current != nil {
			if old := i.value(current); old != "" && old != value {
				i.change(old, func(records *tree) { records.remove(key) })
			}
		}
		if value != "" {
			i.change(value, func(records *tree) { records.put(next) })
		}
	}
}

// snapshot returns the present roots.
func (t *indexedTree) snapshot() roots {
	s := roots{root: t.tree.snapshot()}
	for i := range t.indexes {
		s.indexes = append(s.indexes, t.indexes[i].tree.snapshot())
	}
	return s
}

// at returns a tree with the indexes of t that begins with roots. Indexes that the roots do not have are made.
func (t *indexedTree) at(r roots) indexedTree {
	other := indexedTree{tree: tree{root: r.root}, indexes: slices.Clone(t.indexes)}
	for i := range other.indexes {
		index := &other.indexes[i]
		if index.tree = (tree{}); i < len(r.indexes) {
			index.tree.root = r.indexes[i]
			continue
		}
		index.fill(r.root)
	}
	return other
}

// fill adds the records of a tree to the index.
func (i *index) fill(root *node) {
	from, to := root.span(i.Path, "")
	for _, r := range root.collect(nil, from, to) {
		if value := i.value(r); value != "" {
			i.change(value, func(records *tree) { records.put(r) })
		}
	}
}

// AddIndex implements [storage.Indexer].
func (s *Store) AddIndex(i storage.Index) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return storage.ErrClosed
	}
	if slices.ContainsFunc(s.tree.indexes, func(other index) bool { return other.Name == i.Name }) {
		return nil
	}
	added := index{Index: i}
	added.fill(s.tree.root)
	s.tree.indexes = append(slices.Clip(s.tree.indexes), added)
	s.snapshots = nil
	return nil
}

// rootOf returns the tree that a query reads.
func (s *Store) rootOf(v snapshot, q storage.Query) (root *node, err error) {
	if q.Index == "" {
		return v.root, nil
	}
	s.mu.Lock()
	i := slices.IndexFunc(s.tree.indexes, func(i index) bool { return i.Name == q.Index })
	s.mu.Unlock()
	if i < 0 || i >= len(v.indexes) {
		return nil, storage.ErrNoIndex
	}
	return recordsOf(v.indexes[i], q.Value), nil
}
