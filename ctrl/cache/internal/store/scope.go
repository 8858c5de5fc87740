package store

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
)

// Scope is the part of a store that one list and watch feeds: a namespace, or
// all namespaces that have no scope of their own. Its methods are called by one
// goroutine, in the order in which the server told.
type Scope struct {
	store     *Store
	namespace string
	// progress is the resource version up to which the watch has told
	// everything about this scope.
	progress uint64
	// list counts the lists that were begun.
	list uint32
	// unpacked are the records that were published before they were packed.
	unpacked []unpacked
	// writes are the overlays that the watch has not caught up with, and invalid the
	// invalidations, in the order of the answers. Those that do not end with the
	// progress of the watch are in the store's deletions and invalidLong.
	writes  queue[pending]
	invalid queue[*Invalidation]
}

// Scope adds a scope for a namespace or, if it is empty, for the rest. All
// scopes are added before the first one is used.
func (s *Store) Scope(namespace string) *Scope {
	c := &Scope{store: s, namespace: namespace}
	s.scopes = append(s.scopes, c)
	return c
}

// Covers tells whether a namespace belongs to the store.
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

// Change is what became of an object on the watched side. Old is nil if it was
// not there; New is nil if it is no longer there, and then Old is its last known
// state. Both are nil if nothing changed.
type Change struct {
	Old, New *Snapshot
}

// Begin starts a list. What is not listed until Complete is gone then.
func (c *Scope) Begin() {
	c.list++
}

// meet returns the entry of an object, which is there now, and a record of it. The
// caller is the writer.
func (c *Scope) meet(obj client.Object) (*entry, *record) {
	e, r := c.store.obtain(client.ObjectKeyFromObject(obj)), newRecord(obj)
	e.listed = c.list
	c.store.catchUp(e.key, r, false)
	return e, r
}

// Listed takes an object of a list. A list is always right, even if it tells of
// an older version, as after the server's data was restored from a backup.
func (c *Scope) Listed(obj client.Object) Change {
	s := c.store
	s.writing.Lock()
	defer s.unlock()
	e, r := c.meet(obj)
	version := obj.GetResourceVersion() // empty if a transform has removed it
	if version != "" && e.watched != nil && e.watched.uid == r.uid && s.object(e, e.watched).version() == version {
		return Change{}
	}
	return c.watch(e, r, obj)
}

// Changed takes an object of a watch event, which was added or modified. It ignores
// what it knows already. The object need not be packed before Idle.
func (c *Scope) Changed(obj client.Object) Change {
	s := c.store
	s.writing.Lock()
	defer s.unlock()
	e, r := c.meet(obj)
	var change Change
	if !e.watched.supersedes(r) {
		c.deferPacking(e, r)
		change = c.watch(e, r, obj)
	}
	c.progressed(r.version)
	return change
}

// Deleted takes an object that a watch tells was deleted or no longer matches.
func (c *Scope) Deleted(obj client.Object) Change {
	s := c.store
	s.writing.Lock()
	defer s.unlock()
	var change Change
	key, r := client.ObjectKeyFromObject(obj), newRecord(obj)
	s.catchUp(key, r, true)
	if e := s.entry(key); e != nil {
		change = s.unwatch(e, r, obj)
	}
	c.progressed(r.version)
	return change
}

// Progress takes a resource version up to which the watch has told everything.
func (c *Scope) Progress(version string) {
	s := c.store
	s.writing.Lock()
	defer s.unlock()
	if v, err := strconv.ParseUint(version, 10, 64); err == nil {
		c.progressed(v)
	}
}

// Complete ends a list, which is as of a resource version, and returns the
// objects that are gone.
func (c *Scope) Complete(version string) []*Snapshot {
	s := c.store
	s.writing.Lock()
	defer s.unlock()
	var gone []*entry
	s.all(func(e *entry) {
		if e.listed != c.list && s.scope(e.key.Namespace) == c {
			gone = append(gone, e)
		}
	})
	slices.SortFunc(gone, func(a, b *entry) int { return compare(&a.key, &b.key) })
	v, err := strconv.ParseUint(version, 10, 64)
	var objs []*Snapshot
	for _, e := range gone {
		if e.watched != nil {
			objs = append(objs, s.snapshot(e, e.watched))
		}
		s.set(e, nil, e.write.absentAt(v))
	}
	c.validateAbsent(v)
	if err == nil {
		if v < c.progress {
			// The server went back in time, so no write that it answered
			// before is worth waiting for.
			s.dropWrites(c)
			c.progress = v
		}
		c.progressed(v)
	}
	return objs
}

// supersedes tells whether a record makes another one old news.
func (r *record) supersedes(other *record) bool {
	return r != nil && other.version != 0 && r.version >= other.version
}
