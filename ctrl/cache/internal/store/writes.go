package store

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// write is a write of this process that the watch has not brought back yet. It
// takes the watched object's place for reads.
type write struct {
	// shown is what the server answered. It is nil if reads should find
	// nothing: the object was deleted or does not match the selector any more.
	shown *record
	// version is the resource version that the watch must reach. For a deletion
	// it is the last one before the object went.
	version uint64
	// deleted is the UID of the object that the write deleted, empty if the
	// write was not a deletion.
	deleted types.UID
}

// deletionsForgotten is how long a deletion is remembered without a word of it
// from the watch. The version of a deletion is not told by the server, so there
// is no telling from other events that the watch has passed it.
const deletionsForgotten = 5 * time.Minute

// Wrote takes the server's answer to a write: reads see it until the watch has
// caught up. If selected is false, the object has left what the store is to
// hold, and reads find nothing. It does nothing for a namespace that the store
// does not cover and for resource versions that are not numbers.
func (s *Store) Wrote(obj client.Object, selected bool) {
	s.writing.Lock()
	defer s.writing.Unlock()
	r := newRecord(obj)
	key := client.ObjectKeyFromObject(obj)
	c := s.scope(key.Namespace)
	if c == nil || r.version == 0 || r.version <= c.progress {
		return
	}
	e := s.entry(key)
	switch {
	case e == nil && !selected:
		return
	case e == nil:
		e = s.obtain(key)
	case e.watched.supersedes(r), e.write.outlives(r):
		return
	}
	w := &write{shown: r, version: r.version}
	if !selected {
		w.shown = nil
	}
	s.set(e, e.watched, w)
	c.writes.push(pending{e.key, w})
	s.forgetDeletions()
}

// Deleted takes note that a write deleted an object: reads do not find it until
// the watch has told of the deletion or of a new object by that name. UID and
// version say which object it was and how new it was at least; they may be empty
// and zero if that is not known.
func (s *Store) Deleted(key Key, uid types.UID, version uint64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	c := s.scope(key.Namespace)
	e := s.entry(key)
	w := &write{version: version, deleted: uid}
	switch {
	case c == nil:
		return
	case e == nil && (uid == "" || version <= c.progress):
		// The watch has told of the deletion already, or nobody knows what it
		// will tell.
		return
	case e == nil:
		e = s.obtain(key)
	case e.shown == nil && (uid == "" || version <= e.write.version):
		return
	case e.shown == nil:
		// An object came after the one that is hidden, and went.
	case uid == "" || uid == e.shown.uid:
		w.deleted = e.shown.uid
		w.version = max(version, e.shown.version)
	case version <= e.shown.version:
		// It was an earlier object by that name.
		return
	}
	s.set(e, e.watched, w)
	s.deletions.push(burial{pending{e.key, w}, time.Now()})
	s.forgetDeletions()
}

// outlives tells whether a write stands against an answer that came later but
// tells of an earlier state.
func (w *write) outlives(r *record) bool {
	if w == nil {
		return false
	}
	return w.version >= r.version || w.deleted != "" && w.deleted == r.uid
}

// after returns the write if it still stands after the watch has told of an
// object, and nil if the watch has caught up.
func (w *write) after(r *record) *write {
	switch {
	case w == nil, r.version == 0:
		return nil
	case w.deleted != "" && w.deleted == r.uid:
		return w
	case r.version > w.version, w.deleted == "" && r.version == w.version:
		return nil
	default:
		return w
	}
}

// afterDeletion is after for an event that tells of a deletion. The same object
// may have left the selector, and come back, before that.
func (w *write) afterDeletion(r *record) *write {
	if w != nil && w.deleted != "" && w.deleted == r.uid && r.version >= w.version {
		return nil
	}
	return w.after(r)
}

// absentAt returns the write if it still stands after a list of that version did
// not hold the object. A deletion has come about if the list is late enough to
// have held the object otherwise.
func (w *write) absentAt(version uint64) *write {
	if w != nil && w.deleted != "" && version >= w.version {
		return nil
	}
	return w
}

// watch puts what the watch has told into an entry. If later is set, it leaves it
// to Settle to pack it. The caller is the writer.
func (c *Scope) watch(e *entry, r *record, obj client.Object, later bool) Change {
	s := c.store
	var change Change
	if e.watched != nil {
		change.Old = s.snapshot(e, e.watched)
	}
	if r.later = later; later {
		c.fresh = e
	}
	s.set(e, r, e.write.after(r))
	change.New = s.told(e, r, obj)
	return change
}

// unwatch takes the watched object out of an entry if a deletion means it. The
// caller is the writer.
func (s *Store) unwatch(e *entry, r *record, obj client.Object) Change {
	w := e.write.afterDeletion(r)
	if e.watched == nil {
		s.set(e, nil, w)
		return Change{}
	}
	if r.version != 0 && r.version < e.watched.version {
		return Change{}
	}
	last := NewSnapshot(obj)
	if e.watched.uid != r.uid {
		last = s.snapshot(e, e.watched)
	}
	s.set(e, nil, w)
	return Change{Old: last}
}

// pending is a write and the name of the object that was written.
type pending struct {
	key   Key
	write *write
}

// burial is a pending deletion and when it was made.
type burial struct {
	pending
	at time.Time
}

// progressed notes that the watch has told everything up to a version: writes
// up to it that still stand were of objects that the watch does not tell of.
// The caller is the writer.
func (c *Scope) progressed(version uint64) {
	s := c.store
	c.progress = max(c.progress, version)
	for p, ok := c.writes.peek(); ok; p, ok = c.writes.peek() {
		if s.standing(p) && p.write.version > c.progress {
			break
		}
		c.writes.pop()
		s.drop(p)
	}
	s.forgetDeletions()
	s.unshare()
}

// forgetDeletions drops deletions of which the watch has not told for long. The
// caller is the writer.
func (s *Store) forgetDeletions() {
	for b, ok := s.deletions.peek(); ok; b, ok = s.deletions.peek() {
		if s.standing(b.pending) && time.Since(b.at) < deletionsForgotten {
			break
		}
		s.deletions.pop()
		s.drop(b.pending)
	}
}

// dropWrites drops all writes of a scope. The caller is the writer.
func (s *Store) dropWrites(c *Scope) {
	var standing []pending
	s.all(func(e *entry) {
		if e.write != nil && s.scope(e.key.Namespace) == c {
			standing = append(standing, pending{e.key, e.write})
		}
	})
	for _, p := range standing {
		s.drop(p)
	}
}

// standing tells whether reads still see the write.
func (s *Store) standing(p pending) bool {
	e := s.entry(p.key)
	return e != nil && e.write == p.write
}

// drop makes reads see the watched object again, if they still see the write.
func (s *Store) drop(p pending) {
	if s.standing(p) {
		e := s.entry(p.key)
		s.set(e, e.watched, nil)
	}
}

// queue is a first-in, first-out queue. The zero value is empty.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) push(item T) {
	q.items = append(q.items, item)
}

func (q *queue[T]) peek() (item T, ok bool) {
	if q.head == len(q.items) {
		return item, false
	}
	return q.items[q.head], true
}

func (q *queue[T]) pop() {
	var none T
	q.items[q.head] = none
	q.head++
	// Move what is left to the front once it is the smaller half.
	if 2*q.head >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}
