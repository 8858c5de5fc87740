package store

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// write is the overlay of one entry: the state that a write of this process, or a
// live read after one, proved, and that the watch has not delivered yet. Reads see it
// in place of the watched object.
type write struct {
	// shown is the object, nil if it was deleted or does not match the selector.
	shown *record
	// version is the resource version that the watch must reach to end the overlay.
	// For a deletion it is one at which the object still existed.
	version uint64
	// deleted is the UID of the deleted object, whose late events are ignored. It is
	// empty if this is not a deletion.
	deleted types.UID
}

// Wrote makes reads see the object that the server returned for a write until the
// watch has caught up. The object must be complete and match the selector. Wrote does
// nothing for a namespace that the store does not cover, or for a resource version
// that is not a number.
func (s *Store) Wrote(obj client.Object) {
	s.writing.Lock()
	defer s.unlock()
	s.wrote(obj)
}

// wrote is Wrote. The caller holds s.writing.
func (s *Store) wrote(obj client.Object) {
	r := newRecord(obj)
	key := client.ObjectKeyFromObject(obj)
	s.catchUp(key, r, false)
	c := s.scope(key.Namespace)
	if c == nil || r.version == 0 || r.version <= c.progress {
		return
	}
	e := s.entry(key)
	switch {
	case e == nil:
		e = s.obtain(key)
	case e.watched.supersedes(r), e.write.outlives(r):
		return
	}
	s.lay(c, e, &write{shown: r, version: r.version})
}

// Absent records that no object under the key matches the selector as of a resource
// version: reads do not find one until the watch has caught up.
func (s *Store) Absent(key Key, version uint64) {
	s.writing.Lock()
	defer s.unlock()
	s.absent(key, version)
}

// absent is Absent. The caller holds s.writing.
func (s *Store) absent(key Key, version uint64) {
	if v := s.invalid[key]; v != nil && v.endsWithProgress() && v.version <= version {
		s.validate(v)
	}
	c := s.scope(key.Namespace)
	if c == nil || version <= c.progress {
		return
	}
	e := s.entry(key)
	w := &write{version: version}
	switch {
	case e == nil:
		e = s.obtain(key)
	case e.watched.reaches(version), e.write != nil && e.write.version > version:
		return
	case e.write != nil:
		// What was deleted may have matched again in between.
		w.deleted = e.write.deleted
	}
	s.lay(c, e, w)
}

// Deleted records that a write deleted the object with a UID: reads do not find it
// until the watch delivers the deletion or a new object with that name. Version is a
// resource version that the object had, or zero if none is known.
func (s *Store) Deleted(key Key, uid types.UID, version uint64) {
	s.writing.Lock()
	defer s.unlock()
	c := s.scope(key.Namespace)
	if c == nil || uid == "" {
		return
	}
	e := s.entry(key)
	switch {
	case e == nil && version <= c.progress:
		// The watch has delivered the deletion already, or, without a version, may have.
		return
	case e == nil:
		e = s.obtain(key)
	case e.write != nil && e.write.deleted == uid:
		return
	case e.shown == nil && e.write.deleted != "" && version <= e.write.version:
		return
	case e.shown == nil:
		// The object was created after what the overlay knows, and deleted.
		version = max(version, e.write.version)
	case uid == e.shown.uid:
		version = max(version, e.shown.version)
	case version == 0, e.shown.uid == "":
		// Without a version or a UID, the two objects cannot be ordered.
		s.invalidate(c, &Invalidation{Key: e.key, deleted: uid})
		return
	case version <= e.shown.version:
		// It was an earlier object with that name.
		return
	}
	if v := s.invalid[e.key]; v != nil && (v.deleted == uid || v.endsWithProgress() && v.version <= version) {
		s.validate(v)
	}
	s.lay(c, e, &write{version: version, deleted: uid})
}

// lay overlays an entry with a write. The caller is the writer.
func (s *Store) lay(c *Scope, e *entry, w *write) {
	s.set(e, e.watched, w)
	p := pending{key: e.key, write: w, until: s.deadline()}
	if w.deleted != "" {
		// It does not end with the progress of the watch, so it must not block those
		// that do.
		s.pruneDeletions()
		s.deletions.push(p)
	} else {
		c.writes.push(p)
	}
	s.dropExpired()
}

// outlives reports whether a write stays in place of r, an answer that arrived later
// but has an older state.
func (w *write) outlives(r *record) bool {
	if w == nil {
		return false
	}
	return w.version > r.version || w.deleted != "" && (w.deleted == r.uid || w.version == r.version)
}

// after returns the write if it still stands after the watch delivered r, and nil if
// the watch has caught up.
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

// afterDeletion is after for a DELETED event, which the watch also sends when an
// object stops matching the selector; the same object may match again later.
func (w *write) afterDeletion(r *record) *write {
	if w != nil && w.deleted != "" && w.deleted == r.uid && r.version >= w.version {
		return nil
	}
	return w.after(r)
}

// absentAt returns the write if it still stands after a list at that version did not
// contain the object: the list is older than the write.
func (w *write) absentAt(version uint64) *write {
	if w != nil && version >= w.version {
		return nil
	}
	return w
}

// watch stores an object that the watch delivered, or that was listed, in an entry. The
// caller is the writer.
func (c *Scope) watch(e *entry, r *record, obj client.Object) Change {
	s := c.store
	var change Change
	if e.watched != nil {
		change.Old = s.snapshot(e, e.watched)
	}
	s.set(e, r, e.write.after(r))
	change.New = s.told(e, r, obj)
	return change
}

// unwatch removes the watched object from an entry, unless it is newer than the
// deletion of r. The caller is the writer.
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

// pending is a write in a queue, with its key and its deadline (see Store.deadline).
type pending struct {
	key   Key
	write *write
	until time.Duration
}

// progressed records that the watch has delivered everything up to a version. Writes
// up to it that still stand are of objects that the watch does not select. The caller
// is the writer.
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
	for v, ok := c.invalid.peek(); ok; v, ok = c.invalid.peek() {
		if s.invalid[v.Key] == v && v.version > c.progress {
			break
		}
		c.invalid.pop()
		s.validate(v)
	}
	s.dropExpired()
	s.unshare()
}

// dropWrites drops all overlays and invalidations of a scope. The caller is the
// writer.
func (s *Store) dropWrites(c *Scope) {
	var standing []pending
	s.all(func(e *entry) {
		if e.write != nil && s.scope(e.key.Namespace) == c {
			standing = append(standing, pending{key: e.key, write: e.write})
		}
	})
	for _, p := range standing {
		s.drop(p)
	}
	for key, v := range s.invalid {
		if s.scope(key.Namespace) == c {
			s.validate(v)
		}
	}
}

// standing reports whether reads still see the write.
func (s *Store) standing(p pending) bool {
	e := s.entry(p.key)
	return e != nil && e.write == p.write
}

// pruneDeletions pops the oldest deletions that no longer stand, mostly because the
// watch has confirmed them. The caller is the writer.
func (s *Store) pruneDeletions() {
	for p, ok := s.deletions.peek(); ok && !s.standing(p); p, ok = s.deletions.peek() {
		s.deletions.pop()
	}
}

// drop makes reads see the watched object again, if they still see the write.
func (s *Store) drop(p pending) {
	if s.standing(p) {
		e := s.entry(p.key)
		s.set(e, e.watched, nil)
	}
}
