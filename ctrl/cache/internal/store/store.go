// Package store holds the objects of one kind in one form and finds them by
// name, by namespace, by label and by field.
//
// An entry has two sides. The watched side is what the watch has told and what
// events are made of. The shown side is what reads see: the watched object, or
// in its place a write of this process that the watch has not brought back yet.
// Indexes cover the shown side, so that reads need to know nothing of writes.
//
// Objects that go in are never changed again; what comes out is shared and is
// for the caller to copy. Reads hold a lock only while they collect pointers.
// All methods may be called from several goroutines at once.
package store

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// Key names an object.
type Key = types.NamespacedName

// Store holds the objects of one kind. Use New to make one.
type Store struct {
	// writing is held by whoever changes the store. A writer may read without
	// further locks; it takes mu only for the change itself, after everything
	// that can be computed before, so readers wait for pointer changes alone.
	writing sync.Mutex
	mu      sync.RWMutex

	namespaces map[string]map[string]*entry
	count      int
	fields     map[string]*index
	labels     map[string]*index

	scopes    []*Scope
	deletions queue[burial]
}

// entry is one object's place in the store. It stays the same while the object
// changes, so indexes point to it.
type entry struct {
	key     Key
	watched *record
	shown   *record
	write   *write
	// listed is the number of the scope's list that last held the object.
	listed uint32
}

// record is an object as the store keeps it, with what is asked of it often.
type record struct {
	object  client.Object
	version uint64
}

func newRecord(obj client.Object) *record {
	version, _ := Version(obj)
	return &record{object: obj, version: version}
}

// New returns an empty store.
func New() *Store {
	return &Store{
		namespaces: map[string]map[string]*entry{},
		fields:     map[string]*index{},
		labels:     map[string]*index{},
	}
}

// side returns the record of one side of an entry, or nil.
func (e *entry) side(watched bool) *record {
	if watched {
		return e.watched
	}
	return e.shown
}

// Get returns the object under the key, or nil: the one that reads see or, if
// watched is set, the one that the watch has told of.
func (s *Store) Get(key Key, watched bool) client.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.namespaces[key.Namespace][key.Name]; e != nil {
		if r := e.side(watched); r != nil {
			return r.object
		}
	}
	return nil
}

// Watched returns every object that the watch has told of, ordered by namespace
// and name.
func (s *Store) Watched() []client.Object {
	s.mu.RLock()
	hits := make([]hit, 0, s.count)
	s.all(func(e *entry) {
		if e.watched != nil {
			hits = append(hits, hit{&e.key, e.watched.object})
		}
	})
	s.mu.RUnlock()
	return ordered(hits)
}

// entry returns the key's entry or nil. The caller is the writer.
func (s *Store) entry(key Key) *entry {
	return s.namespaces[key.Namespace][key.Name]
}

// obtain returns the key's entry, made if need be. The caller is the writer and
// gives the entry something to hold before it lets go of the store.
func (s *Store) obtain(key Key) *entry {
	if e := s.entry(key); e != nil {
		return e
	}
	e := &entry{key: key}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.namespaces[key.Namespace]
	if names == nil {
		names = map[string]*entry{}
		s.namespaces[key.Namespace] = names
	}
	names[key.Name] = e
	s.count++
	return e
}

// set changes both sides of an entry and forgets it if nothing is left. The
// caller is the writer.
func (s *Store) set(e *entry, watched *record, w *write) {
	shown := watched
	if w != nil {
		shown = w.shown
	}
	var moves []move
	if shown != e.shown {
		moves = s.moves(e, shown)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.watched, e.shown, e.write = watched, shown, w
	for _, m := range moves {
		m.apply(e)
	}
	if watched == nil && w == nil {
		s.forget(e.key)
	}
}

func (s *Store) forget(key Key) {
	names := s.namespaces[key.Namespace]
	delete(names, key.Name)
	if len(names) == 0 {
		delete(s.namespaces, key.Namespace)
	}
	s.count--
}
