// Package store holds the objects of one kind in one form and finds them by
// name, by namespace, by label and by field.
//
// An entry has two sides. The watched side is what the watch has told and what
// events are made of. The shown side is what reads see: the watched object, or
// in its place a write of this process that the watch has not brought back yet.
// Indexes cover the shown side, so that reads need to know nothing of writes.
//
// Objects are kept packed: see package compact. A read makes the caller's own
// object of that, for less than a deep copy costs. What cannot be packed is kept
// as it is, and so is, beside its packed form, what is read to be shared.
//
// Objects that go in are never changed again. Reads hold a lock only while they
// collect pointers. All methods may be called from several goroutines at once.
package store

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/cache/internal/compact"
)

// Key names an object.
type Key = types.NamespacedName

// Sharing says which Go values a store keeps beside the packed objects.
type Sharing uint8

const (
	// ShareAsked keeps those that were read to be shared, for as long as they
	// are asked for.
	ShareAsked Sharing = iota
	// ShareAll keeps all of them.
	ShareAll
	// ShareNone keeps none: a read that asks to share gets a value of its own.
	ShareNone
)

// Store holds the objects of one kind. Use New to make one.
type Store struct {
	sharing Sharing
	// lent is set when values are shared that may be forgotten, and unshareAt is
	// when they are looked through.
	lent      atomic.Bool
	unshareAt time.Time

	// writing is held by whoever changes the store. A writer may read without
	// further locks; it takes mu only for the change itself, after everything
	// that can be computed before, so readers wait for pointer changes alone.
	writing sync.Mutex
	mu      sync.RWMutex

	spaces map[string]*space
	count  int
	fields map[string]*index
	labels map[string]*index
	// indexes are those of both maps in the order in which they were added.
	indexes []*index
	// filings is where the entry belongs that is being changed.
	filings []filing

	packer *compact.Packer
	// view is what unpacks all records, and kind what they are packed of, once
	// there is one.
	view *compact.View
	kind *kind
	// size is the bytes that the packed objects take.
	size int

	scopes []*Scope

	// invalid are the keys that reads must not take from the store. It belongs to the
	// writer; others use invalidKeys, its length.
	invalid     map[Key]*Invalidation
	invalidKeys atomic.Int64
	// deletions and invalidLong are the overlays and invalidations that do not end with
	// the progress of a watch.
	deletions   queue[pending]
	invalidLong queue[*Invalidation]
	// expireAt is no later than the earliest deadline of an overlay or invalidation, as
	// the time since the store was made, or zero if there are none.
	made     time.Time
	expireAt atomic.Int64
}

// entry is one object's place in the store. It stays the same while the object
// changes, so indexes point to it.
type entry struct {
	key     Key
	watched *record
	shown   *record
	write   *write
	// posts are where indexes file the entry. Only the writer looks at them.
	posts []*post
	// listed is the number of the scope's list that last held the object.
	listed uint32
}

// New returns an empty store.
func New(sharing Sharing) *Store {
	packer := compact.NewPacker()
	return &Store{
		sharing: sharing,
		spaces:  map[string]*space{},
		fields:  map[string]*index{},
		labels:  map[string]*index{},
		invalid: map[Key]*Invalidation{},
		made:    time.Now(),
		packer:  packer,
		view:    packer.View(),
	}
}

// side returns the record of one side of an entry, or nil.
func (e *entry) side(watched bool) *record {
	if watched {
		return e.watched
	}
	return e.shown
}

// Get returns the object under the key: the one that reads see or, if watched is
// set, the one that the watch has told of. It returns false if there is none.
func (s *Store) Get(key Key, watched bool) (Object, bool) {
	s.expire()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.entry(key); e != nil {
		if r := e.side(watched); r != nil {
			return s.object(e, r), true
		}
	}
	return Object{}, false
}

// Watched returns every object that the watch has told of, ordered by namespace
// and name.
func (s *Store) Watched() []*Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*Snapshot, 0, s.count)
	s.inOrder(func(e *entry) {
		if e.watched != nil {
			all = append(all, s.snapshot(e, e.watched))
		}
	})
	return all
}

// Size returns how many objects the watch has told of or reads see, and how many
// bytes their packed forms and what holds them take. Objects that are kept as Go
// values take more, which is not counted.
func (s *Store) Size() (objects, bytes int) {
	s.expire()
	s.writing.Lock()
	defer s.unlock()
	return s.count, s.count*entryCost + s.size + s.packer.Size()
}

// entryCost is about what an entry and its record take.
const entryCost = 320

// entry returns the key's entry or nil. The caller is the writer or holds mu.
func (s *Store) entry(key Key) *entry {
	if space := s.spaces[key.Namespace]; space != nil {
		return space.entries[key.Name]
	}
	return nil
}

// obtain returns the key's entry, made if need be. The caller is the writer and
// gives the entry something to hold before it lets go of the store.
func (s *Store) obtain(key Key) *entry {
	if e := s.entry(key); e != nil {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	return s.space(key.Namespace).add(key.Name)
}

// unlock ends a change of the store. Only here do readers, who look at invalidKeys without a lock, see
// that a key is valid again: an invalidation may end before the object that ends it can be read.
func (s *Store) unlock() {
	s.invalidKeys.Store(int64(len(s.invalid)))
	s.writing.Unlock()
}

// set changes both sides of an entry and forgets it if nothing is left. The
// caller is the writer.
func (s *Store) set(e *entry, watched *record, w *write) {
	shown := watched
	if w != nil {
		shown = w.shown
	}
	refile := shown != e.shown && s.file(e, shown)
	s.publish(watched)
	s.publish(shown)
	before := [...]*record{e.watched, e.shown}
	if e.watched == e.shown {
		before[1] = nil
	}
	s.mu.Lock()
	e.watched, e.shown, e.write = watched, shown, w
	s.view = s.packer.View()
	if refile {
		s.refile(e)
	}
	if watched == nil && w == nil {
		s.forget(e)
	}
	s.mu.Unlock()
	for _, r := range before {
		if r != watched && r != shown {
			s.release(r)
		}
	}
}

func (s *Store) forget(e *entry) {
	s.spaces[e.key.Namespace].remove(e.key.Name)
	if len(s.spaces[e.key.Namespace].entries) == 0 {
		delete(s.spaces, e.key.Namespace)
	}
	s.count--
}
