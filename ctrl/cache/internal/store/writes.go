package store

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// write is what a write of this process, or a live read after one, has shown for
// certain and the watch has not brought yet. It takes the watched object's place
// for reads.
type write struct {
	// shown is the object. It is nil if reads should find nothing: the object was
	// deleted or does not match the selector.
	shown *record
	// version is the resource version that the watch must reach. For a deletion
	// it is one at which the object still existed.
	version uint64
	// deleted is the UID of an object that was deleted, whatever the watch still
	// tells of it; empty if this is not a deletion.
	deleted types.UID
}

// Wrote takes the server's answer to a write, which holds the whole object, and
// the object is known to match the selector: reads see it until the watch has
// caught up. It does nothing for a namespace that the store does not cover and for
// resource versions that are not numbers.
func (s *Store) Wrote(obj client.Object) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.wrote(obj)
}

// wrote is Wrote for the writer.
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

// Absent takes note that the store is not to hold any object under a key as of a
// resource version: reads do not find it until the watch has caught up.
func (s *Store) Absent(key Key, version uint64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.absent(key, version)
}

// absent is Absent for the writer.
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

// Deleted takes note that a write deleted the object of a UID: reads do not find it
// until the watch has told of the deletion or of a new object by that name.
// Version is one that the object had, zero if none is known.
func (s *Store) Deleted(key Key, uid types.UID, version uint64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	c := s.scope(key.Namespace)
	if c == nil || uid == "" {
		return
	}
	e := s.entry(key)
	switch {
	case e == nil && version <= c.progress:
		// The watch has told of the deletion already, or it is not known whether it
		// has.
		return
	case e == nil:
		e = s.obtain(key)
	case e.write != nil && e.write.deleted == uid:
		return
	case e.shown == nil && e.write.deleted != "" && version <= e.write.version:
		return
	case e.shown == nil:
		// The object came after what is known of, and went.
		version = max(version, e.write.version)
	case uid == e.shown.uid:
		version = max(version, e.shown.version)
	case version == 0:
		// Which of the two came first is not known.
		s.invalidate(c, &Invalidation{Key: e.key, deleted: uid})
		return
	case version <= e.shown.version:
		// It was an earlier object by that name.
		return
	}
	if v := s.invalid[e.key]; v != nil && (v.deleted == uid || v.endsWithProgress() && v.version <= version) {
		s.validate(v)
	}
	s.lay(c, e, &write{version: version, deleted: uid})
}

// lay puts a write over what the watch has told. The caller is the writer.
func (s *Store) lay(c *Scope, e *entry, w *write) {
	s.set(e, e.watched, w)
	p := pending{key: e.key, write: w, until: s.deadline()}
	if w.deleted != "" {
		// It does not end with the progress of the watch, so it must not keep
		// others from ending.
		s.deletions.push(p)
	} else {
		c.writes.push(p)
	}
	s.dropExpired()
}

// outlives tells whether a write stands against an answer that came later but
// tells of an earlier state.
func (w *write) outlives(r *record) bool {
	if w == nil {
		return false
	}
	return w.version > r.version || w.deleted != "" && (w.deleted == r.uid || w.version == r.version)
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
// not hold the object: the list is from before the write.
func (w *write) absentAt(version uint64) *write {
	if w != nil && version >= w.version {
		return nil
	}
	return w
}

// watch puts the object of a watch event, or of a list, into an entry. The caller is the
// writer.
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

// pending is a write, the name of the object that was written, and how long it
// stands at most, as Store.deadline gives it.
type pending struct {
	key   Key
	write *write
	until time.Duration
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

// dropWrites drops all that is known of writes in a scope. The caller is the
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
