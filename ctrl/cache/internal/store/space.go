package store

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// space is the part of a store that holds the objects of one namespace.
type space struct {
	name    string
	entries map[string]*entry
	// sorted is the entries by name, once somebody has asked, until one comes or
	// goes.
	sorted atomic.Pointer[[]*entry]
}

// space returns the space of a namespace, made if need be. The caller is the
// writer and holds mu.
func (s *Store) space(namespace string) *space {
	sp := s.spaces[namespace]
	if sp == nil {
		sp = &space{name: strings.Clone(namespace), entries: map[string]*entry{}}
		s.spaces[sp.name] = sp
	}
	return sp
}

// add makes an entry. It keeps none of the caller's strings, which may be part of
// larger ones.
func (sp *space) add(name string) *entry {
	e := &entry{key: Key{Namespace: sp.name, Name: strings.Clone(name)}}
	sp.entries[e.key.Name] = e
	sp.sorted.Store(nil)
	return e
}

func (sp *space) remove(name string) {
	delete(sp.entries, name)
	sp.sorted.Store(nil)
}

// inOrder visits the entries by name. The caller holds mu, so that none comes or
// goes meanwhile.
func (sp *space) inOrder(visit func(*entry)) {
	sorted := sp.sorted.Load()
	if sorted == nil {
		entries := slices.SortedFunc(maps.Values(sp.entries), func(a, b *entry) int { return strings.Compare(a.key.Name, b.key.Name) })
		sorted = &entries
		sp.sorted.Store(sorted)
	}
	for _, e := range *sorted {
		visit(e)
	}
}

// inOrder visits all entries by namespace and name. The caller holds mu.
func (s *Store) inOrder(visit func(*entry)) {
	for _, name := range slices.Sorted(maps.Keys(s.spaces)) {
		s.spaces[name].inOrder(visit)
	}
}

// all visits all entries in any order. The caller is the writer or holds mu.
func (s *Store) all(visit func(*entry)) {
	for _, sp := range s.spaces {
		for _, e := range sp.entries {
			visit(e)
		}
	}
}
