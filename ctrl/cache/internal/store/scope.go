package store

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/internal/invariants"
)

// Scope is the part of a store that one list and watch keeps up to date: a namespace, or all
// namespaces without a scope of their own. Its methods are called by one goroutine, in the order in
// which the server sent the events.
type Scope struct {
	store     *Store
	namespace string
	// progress is the resource version up to which the watch has delivered all events of this
	// scope.
	progress uint64
	// list is the number of lists that were begun.
	list uint32
	// listing is set between Begin and Complete.
	listing bool
	// pending are the states that were published and are not packed yet. packTimer is the timer of Pack, nil if none
	// wait.
	pending   queue[pending]
	packTimer *time.Timer
	// overlays are the overlays that the watch has not reached yet, and invalid the invalidations,
	// in the order in which they were made. Overlays and invalidations that progress does not end
	// are in Store.deletions and Store.invalid.unbounded.
	overlays queue[queuedOverlay]
	invalid  queue[*Invalidation]
}

// Scope adds a scope for a namespace or, if it is empty, for the rest. All
// scopes are added before the first one is used.
func (s *Store) Scope(namespace string) *Scope {
	c := &Scope{store: s, namespace: namespace}
	s.scopes = append(s.scopes, c)
	return c
}

// Covers reports whether a namespace belongs to the store.
func (s *Store) Covers(namespace string) bool {
	return s.scope(namespace) != nil
}

// scope returns the scope of a namespace or nil.
func (s *Store) scope(namespace string) *Scope {
	var rest *Scope
	for _, c := range s.scopes {
		switch c.namespace {
		case namespace:
			return c
		case metav1.NamespaceAll:
			rest = c
		}
	}
	return rest
}

// covers reports whether an object of a namespace is to be stored by this scope: it is not if
// another scope has the namespace. A server that ignores the namespace or the selector of a request
// sends such objects, and the lists of two scopes must not remove and add them in turn.
func (c *Scope) covers(namespace string) bool {
	if namespace == c.namespace || len(c.store.scopes) == 1 {
		return true
	}
	other := c.store.scope(namespace)
	return other == nil || other == c
}

// Version returns an object's resource version as a number, by which objects of
// one kind are ordered. It returns false if it is not a positive number.
func Version(obj metav1.Object) (uint64, bool) {
	v := ParseVersion(obj.GetResourceVersion())
	return v, v != 0
}

// ParseVersion returns a resource version as a number, or zero if it is not one.
func ParseVersion(version string) uint64 {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// Change is the change of the watched state by an event. Old is nil if the object was not there.
// New is nil if it was deleted, and then Old is its last known state. Both are nil if nothing has
// changed.
type Change struct {
	Old, New *Snapshot
}

// Begin starts a list. Objects that are not listed before Complete are removed by it.
func (c *Scope) Begin() {
	c.store.writing.Lock()
	defer c.store.unlock()
	c.list++
	c.listing = true
}

// receive returns the record of an object that the server has sent, and a state made of it. The
// caller is the writer.
func (c *Scope) receive(obj client.Object) (*record, *state) {
	r, st := c.store.getOrAdd(client.ObjectKeyFromObject(obj)), newState(obj)
	r.listed = c.list
	c.store.invalid.endBy(r.key, st, false)
	return r, st
}

// Listed applies an object of a list. A list is authoritative even if an object has an older
// resource version, as after the server's data was restored from a backup.
func (c *Scope) Listed(obj client.Object) Change {
	s := c.store
	if !c.covers(obj.GetNamespace()) {
		return Change{}
	}
	s.writing.Lock()
	defer s.unlock()
	r, st := c.receive(obj)
	version := obj.GetResourceVersion() // empty if a transform has removed it
	if version != "" && r.watched != nil && r.watched.uid == st.uid && s.object(r, r.watched).version() == version {
		return Change{}
	}
	return c.setWatched(r, st, obj)
}

// Changed applies an ADDED or MODIFIED event. It ignores an object that is not newer than the
// watched one. The object is packed later.
func (c *Scope) Changed(obj client.Object) Change {
	s := c.store
	if !c.covers(obj.GetNamespace()) {
		return Change{}
	}
	s.writing.Lock()
	defer s.unlock()
	r, st := c.receive(obj)
	var change Change
	if !r.watched.supersedes(st) {
		c.deferPacking(r, st)
		change = c.setWatched(r, st, obj)
	}
	c.progressed(st.version)
	return change
}

// Deleted applies a DELETED event: the object was deleted or no longer matches the selector.
func (c *Scope) Deleted(obj client.Object) Change {
	s := c.store
	if !c.covers(obj.GetNamespace()) {
		return Change{}
	}
	s.writing.Lock()
	defer s.unlock()
	var change Change
	key, st := client.ObjectKeyFromObject(obj), newState(obj)
	s.invalid.endBy(key, st, true)
	if r := s.records.get(key); r != nil {
		change = s.unsetWatched(r, st, obj)
	}
	c.progressed(st.version)
	return change
}

// Progress applies a bookmark: the watch has delivered all events up to a resource version.
func (c *Scope) Progress(version string) {
	s := c.store
	s.writing.Lock()
	defer s.unlock()
	if v, err := strconv.ParseUint(version, 10, 64); err == nil {
		c.progressed(v)
	}
}

// Reached reports whether the watch has delivered all events up to a version. It may be called by
// any goroutine.
func (c *Scope) Reached(version uint64) bool {
	c.store.writing.Lock()
	defer c.store.unlock()
	return !c.listing && c.progress >= version
}

// Version returns the resource version up to which the watch has delivered all events, zero if it is
// not known. It may be called by any goroutine.
func (c *Scope) Version() uint64 {
	c.store.writing.Lock()
	defer c.store.unlock()
	return c.progress
}

// Agrees reports whether the watched state has what a list at a version has: no object of the list is
// older or missing, and no other is as old as the list. It may be called by any goroutine.
func (c *Scope) Agrees(list map[Key]uint64, version uint64) bool {
	s := c.store
	s.writing.Lock()
	defer s.unlock()
	if c.listing {
		return false
	}
	for key, v := range list {
		if !c.covers(key.Namespace) {
			continue
		}
		if r := s.records.get(key); r == nil || r.watched == nil || r.watched.version < v {
			return false
		}
	}
	agrees := true
	s.records.all(func(r *record) {
		if r.watched == nil || r.watched.version > version || s.scope(r.key.Namespace) != c {
			return
		}
		if _, ok := list[r.key]; !ok {
			agrees = false
		}
	})
	return agrees
}

// Complete ends a list, which is as of a resource version. It removes the objects that were not
// listed and returns them.
func (c *Scope) Complete(version string) []*Snapshot {
	s := c.store
	s.writing.Lock()
	defer s.unlock()
	var gone []*record
	s.records.all(func(r *record) {
		if r.listed != c.list && s.scope(r.key.Namespace) == c {
			gone = append(gone, r)
		}
	})
	slices.SortFunc(gone, func(a, b *record) int { return compare(&a.key, &b.key) })
	v, err := strconv.ParseUint(version, 10, 64)
	var objs []*Snapshot
	for _, r := range gone {
		if r.watched != nil {
			objs = append(objs, s.snapshot(r, r.watched))
		}
		s.set(r, nil, r.overlay.absentAt(v))
	}
	c.validateAbsent(v)
	c.listing = false
	if err == nil {
		if v < c.progress {
			// The server went back in time, so the watch will not reach what was written before.
			s.dropOverlays(c)
			c.progress = v
		}
		c.progressed(v)
	}
	return objs
}

// setWatched stores a state that the watch delivered, or that was listed, in a record. The caller
// is the writer.
func (c *Scope) setWatched(r *record, st *state, obj client.Object) Change {
	s := c.store
	if invariants.Enabled {
		c.checkNewer(r, st)
	}
	var change Change
	if r.watched != nil {
		change.Old = s.snapshot(r, r.watched)
	}
	s.set(r, st, r.overlay.after(st))
	change.New = s.snapshotOf(r, st, obj)
	return change
}

// unsetWatched removes the watched state of a record, unless it is newer than the deletion of st.
// The caller is the writer.
func (s *Store) unsetWatched(r *record, st *state, obj client.Object) Change {
	o := r.overlay.afterDeletion(st)
	if r.watched == nil {
		s.set(r, nil, o)
		return Change{}
	}
	if st.version != 0 && st.version < r.watched.version {
		return Change{}
	}
	last := NewSnapshot(obj)
	if r.watched.uid != st.uid {
		last = s.snapshot(r, r.watched)
	}
	s.set(r, nil, o)
	return Change{Old: last}
}

// supersedes reports whether a state is as new as another one, so that the other one is to be
// ignored.
func (st *state) supersedes(other *state) bool {
	return st != nil && other.version != 0 && st.version >= other.version
}
