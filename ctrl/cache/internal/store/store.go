// Package store holds the objects of one kind in one representation and finds them by name, by
// namespace, by label and by field.
//
// A record has two states. The watched state is what the watch has delivered, from which
// notifications are made. The visible state is what reads return: the watched state, or in its
// place an overlay, the result of a write of this process that the watch has not delivered yet.
// Indexes cover the visible state, so queries need no knowledge of overlays.
//
// Objects are kept packed: see package compact. A read unpacks the caller's own copy, which costs
// less than a deep copy. An object that cannot be packed is kept as a Go value; so is, beside the
// packed value, an object that was read as shared.
//
// Objects that are passed in are never changed. Reads hold a lock only while they collect pointers.
// All methods may be called concurrently.
//
// # Overlays
//
// An overlay holds only the content of a server's response, and for five minutes at most. If the response does not
// contain the result (a scale, metadata alone, a field selector that only the server can evaluate), the key is invalid
// instead. The next read then lists that name live (for many invalid keys, the namespace or the partition), with the
// selectors of the watch, and overlays the result.
//
// Indexes, by fields that a program names and by labels that it has selected by, map values to posting lists of
// records.
//
// # Packing
//
// The store notifies handlers of an event before it packs the object. It keeps a bounded list of unpacked records, and
// packs them within a second ([Scope.Pack]). So an object that changes again soon is not packed in between. The pending
// notifications of a slow handler refer to packed objects.
package store

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/cache/internal/compact"
	"flyball.dev/internal/invariants"
)

// Key names an object.
type Key = types.NamespacedName

// Sharing says which objects a store keeps as shared Go values beside the packed ones.
type Sharing uint8

const (
	// ShareOnDemand keeps the values that were read as shared, until they have not been read for a
	// while.
	ShareOnDemand Sharing = iota
	// ShareAll keeps all of them.
	ShareAll
	// ShareNone keeps none: a read that asks for a shared value gets one of its own.
	ShareNone
)

// Store holds the objects of one kind. Use New to make one.
type Store struct {
	// writing is held by the writer, who changes the store. The writer reads without further
	// locks. It holds mu only for the change itself, after everything that can be computed before,
	// so readers wait for assignments of pointers at most.
	writing sync.Mutex
	mu      sync.RWMutex

	records records
	indexes indexes

	packing packing
	// view and kind are what unpacks the values of all records. kind is nil before the first one is
	// packed.
	view *compact.View
	kind *kind

	sharing  Sharing
	eviction eviction

	scopes    []*Scope
	invalid   invalidations
	deletions queue[queuedOverlay] // the overlays that the progress of a watch does not end
	deadlines deadlines
}

// record has the states of the object with a key. It stays the same while the object changes, so
// indexes refer to it. At least one of watched and overlay is set. visible is the overlay's state
// if there is an overlay, and watched otherwise.
type record struct {
	key     Key
	watched *state
	visible *state
	overlay *overlay
	// postings are the posting lists that the record is in. Only the writer accesses them.
	postings []*postings
	// listed is the number of the list of the scope that contained the object last.
	listed uint32
}

// New returns an empty store.
func New(sharing Sharing) *Store {
	packer := compact.NewPacker()
	return &Store{
		records:   records{namespaces: map[string]*namespace{}},
		indexes:   indexes{fields: map[string]*index{}, labels: map[string]*index{}},
		packing:   packing{packer: packer, shareAll: sharing == ShareAll},
		view:      packer.View(),
		sharing:   sharing,
		invalid:   invalidations{byKey: map[Key]*Invalidation{}},
		deadlines: deadlines{made: time.Now()},
	}
}

// state returns the watched or the visible state of a record, or nil.
func (r *record) state(watched bool) *state {
	if watched {
		return r.watched
	}
	return r.visible
}

// Get returns the object under the key: the visible one or, if watched is set, the one that the
// watch has delivered. It returns false if there is none.
func (s *Store) Get(key Key, watched bool) (Object, bool) {
	s.expire()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.records.get(key); r != nil {
		if st := r.state(watched); st != nil {
			return s.object(r, st), true
		}
	}
	return Object{}, false
}

// Watched returns every object that the watch has delivered, ordered by namespace and name.
func (s *Store) Watched() []*Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*Snapshot, 0, s.records.count)
	s.records.inOrder(func(r *record) {
		if r.watched != nil {
			all = append(all, s.snapshot(r, r.watched))
		}
	})
	return all
}

// Namespaces returns the namespaces of the visible objects, in no order.
func (s *Store) Namespaces() (names []string) {
	s.expire()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, ns := range s.records.namespaces {
		for _, r := range ns.records {
			if r.visible != nil {
				names = append(names, ns.name)
				break
			}
		}
	}
	return names
}

// Size returns how many objects there are in either state, and how many bytes the packed values and
// the records take. Objects that are kept as Go values take more, which is not counted.
func (s *Store) Size() (objects, bytes int) {
	s.expire()
	s.writing.Lock()
	defer s.unlock()
	return s.records.count, s.records.count*recordCost + s.packing.size + s.packing.packer.Size()
}

// recordCost is about how many bytes a record and its state take.
const recordCost = 320

// getOrAdd returns the record of a key, and adds it if there is none. The caller is the writer and
// sets one of its states before it unlocks the store.
func (s *Store) getOrAdd(key Key) *record {
	if r := s.records.get(key); r != nil {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records.add(key)
}

// unlock ends a change of the store. Readers check the number of invalidations without a lock, so it is updated
// only here: an invalidation may end before the object that ends it can be read.
func (s *Store) unlock() {
	s.invalid.count.Store(int64(len(s.invalid.byKey)))
	s.writing.Unlock()
}

// set changes both states of a record and removes the record if nothing is left. The
// caller is the writer.
func (s *Store) set(r *record, watched *state, o *overlay) {
	visible := watched
	if o != nil {
		visible = o.visible
	}
	changed := visible != r.visible
	var shown Object
	if visible != nil {
		shown = s.object(r, visible)
	}
	reindex := changed && s.indexes.compute(r, shown)
	s.packing.publish(&r.key, watched)
	s.packing.publish(&r.key, visible)
	before := [...]*state{r.watched, r.visible}
	if r.watched == r.visible {
		before[1] = nil
	}
	s.mu.Lock()
	r.watched, r.visible, r.overlay = watched, visible, o
	s.kind, s.view = s.packing.kind, s.packing.packer.View()
	if reindex {
		s.indexes.update(r)
	}
	if watched == nil && o == nil {
		s.records.remove(r)
	}
	s.mu.Unlock()
	for _, st := range before {
		if st != watched && st != visible {
			s.packing.release(st)
		}
	}
	if invariants.Enabled {
		s.check(r)
		if changed {
			s.checkLabels(r)
		}
	}
}
