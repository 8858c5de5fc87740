package store

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// records are the records of a store, by namespace and name. The writer may read them; others hold
// the lock of the store. A change needs both.
type records struct {
	namespaces map[string]*namespace
	count      int
}

// get returns the record of a key or nil.
func (a *records) get(key Key) *record {
	if ns := a.namespaces[key.Namespace]; ns != nil {
		return ns.records[key.Name]
	}
	return nil
}

// add adds a record of a key that has none.
func (a *records) add(key Key) *record {
	ns := a.namespaces[key.Namespace]
	if ns == nil {
		ns = &namespace{name: strings.Clone(key.Namespace), records: map[string]*record{}}
		a.namespaces[ns.name] = ns
	}
	a.count++
	return ns.add(key.Name)
}

func (a *records) remove(r *record) {
	ns := a.namespaces[r.key.Namespace]
	ns.remove(r.key.Name)
	if len(ns.records) == 0 {
		delete(a.namespaces, r.key.Namespace)
	}
	a.count--
}

// inOrder visits all records by namespace and name. The caller holds the lock of the store.
func (a *records) inOrder(visit func(*record)) {
	for _, name := range slices.Sorted(maps.Keys(a.namespaces)) {
		a.namespaces[name].inOrder(visit)
	}
}

// all visits all records in any order.
func (a *records) all(visit func(*record)) {
	for _, ns := range a.namespaces {
		for _, r := range ns.records {
			visit(r)
		}
	}
}

// namespace has the records of one namespace.
type namespace struct {
	name    string
	records map[string]*record
	// sorted are the records by name. It is made by the first query in order, and reset when a
	// record is added or removed.
	sorted atomic.Pointer[[]*record]
}

// add adds a record. It clones the name, which may be part of a larger string.
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

// inOrder visits the records by name. The caller holds the lock of the store, so that none is
// added or removed meanwhile.
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
