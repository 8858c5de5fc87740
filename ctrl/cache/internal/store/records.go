package store

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// namespace is the part of a store that holds the objects of one namespace.
type namespace struct {
	name    string
	records map[string]*record
	// sorted are the records by name. It is made by the first query in order, and reset when a
	// record is added or removed.
	sorted atomic.Pointer[[]*record]
}

// namespace returns a namespace, and adds it if there is none. The caller is the writer and holds
// mu.
func (s *Store) namespace(name string) *namespace {
	ns := s.namespaces[name]
	if ns == nil {
		ns = &namespace{name: strings.Clone(name), records: map[string]*record{}}
		s.namespaces[ns.name] = ns
	}
	return ns
}

// add adds a record. It clones the strings, which may be part of larger ones.
func (ns *namespace) add(name string) *record {
	r := &record{key: Key{Namespace: ns.name, Name: strings.Clone(name)}}
	ns.records[r.key.Name] = r
	ns.sorted.Store(nil)
	return r
}

func (ns *namespace) remove(name string) {
	delete(ns.records, name)
	ns.sorted.Store(nil)
}

// inOrder visits the records by name. The caller holds mu, so that none is added or removed
// meanwhile.
func (ns *namespace) inOrder(visit func(*record)) {
	sorted := ns.sorted.Load()
	if sorted == nil {
		byName := func(a, b *record) int { return strings.Compare(a.key.Name, b.key.Name) }
		records := slices.SortedFunc(maps.Values(ns.records), byName)
		sorted = &records
		ns.sorted.Store(sorted)
	}
	for _, r := range *sorted {
		visit(r)
	}
}

// inOrder visits all records by namespace and name. The caller holds mu.
func (s *Store) inOrder(visit func(*record)) {
	for _, name := range slices.Sorted(maps.Keys(s.namespaces)) {
		s.namespaces[name].inOrder(visit)
	}
}

// all visits all records in any order. The caller is the writer or holds mu.
func (s *Store) all(visit func(*record)) {
	for _, ns := range s.namespaces {
		for _, r := range ns.records {
			visit(r)
		}
	}
}

// Namespaces returns the namespaces of the visible objects, in no order.
func (s *Store) Namespaces() (names []string) {
	s.expire()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, ns := range s.namespaces {
		for _, r := range ns.records {
			if r.visible != nil {
				names = append(names, ns.name)
				break
			}
		}
	}
	return names
}
