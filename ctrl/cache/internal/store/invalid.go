package store

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// Invalidation says that what a store shows under a key is out of date: a write of
// this process has changed or deleted an object, and its answer did not hold it,
// or not enough of it. A read of the key has to ask the server, unless the watch
// has caught up by then. An Invalidation is never changed.
type Invalidation struct {
	Key Key
	// version is the resource version that the watch must reach. For a deletion it
	// is one at which the object still existed. Zero if it is not known.
	version uint64
	// deleted is the UID of the object that was deleted, or that waits for its
	// finalizers or its grace period since. It is empty if the write was not a
	// deletion, or if nobody knows of what.
	deleted types.UID
	// until is how long the invalidation stands at most, as Store.deadline gives it.
	until time.Duration
}

// Invalidate takes note that a write brought an object to a resource version, but
// not what became of it. If version is zero, not even that is known, and only a
// live read makes the key valid again.
func (s *Store) Invalidate(key Key, version uint64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	c, e := s.scope(key.Namespace), s.entry(key)
	switch {
	case c == nil:
		return
	case version == 0:
	case version <= c.progress, e != nil && (e.watched.reaches(version) || e.write != nil && e.write.version >= version):
		return
	}
	s.invalidate(c, &Invalidation{Key: key, version: version})
}

// InvalidateDeleted takes note that the deletion of the object of a UID was
// accepted, but not whether the object is gone. Version is one that it had before.
func (s *Store) InvalidateDeleted(key Key, uid types.UID, version uint64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	c, e := s.scope(key.Namespace), s.entry(key)
	switch {
	case c == nil:
		return
	case e == nil && version <= c.progress:
		// The watch has told that the object is gone.
		return
	case e != nil && e.write != nil && e.write.deleted == uid:
		return
	case e != nil && e.shown != nil && e.shown.uid != "" && e.shown.uid != uid && e.shown.version > version && version != 0:
		// There is a later object by that name.
		return
	}
	s.invalidate(c, &Invalidation{Key: key, version: version, deleted: uid})
}

// invalidate adds an invalidation. The caller is the writer.
func (s *Store) invalidate(c *Scope, v *Invalidation) {
	if other := s.invalid[v.Key]; other != nil {
		switch {
		case other.deleted != v.deleted, other.version == 0, v.version == 0:
			// What would make the one valid does not make the other.
			v.version, v.deleted = 0, ""
		default:
			v.version = max(v.version, other.version)
		}
	}
	v.until = s.deadline()
	s.invalid[v.Key] = v
	s.invalidKeys.Store(int64(len(s.invalid)))
	if v.endsWithProgress() {
		c.invalid.push(v)
	} else {
		s.invalidLong.push(v)
	}
	s.dropExpired()
}

// validate removes an invalidation, if it still stands. The caller is the writer.
func (s *Store) validate(v *Invalidation) {
	if s.invalid[v.Key] != v {
		return
	}
	delete(s.invalid, v.Key)
	s.invalidKeys.Store(int64(len(s.invalid)))
}

// Invalid returns what has to be read live before a key is read, or a namespace if
// name is empty, or everything if namespace is empty too.
func (s *Store) Invalid(namespace, name string) []*Invalidation {
	if s.invalidKeys.Load() == 0 {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.dropExpired()
	var found []*Invalidation
	add := func(v *Invalidation) {
		if v.endsWithProgress() && v.version <= s.scope(v.Key.Namespace).progress {
			s.validate(v)
		} else {
			found = append(found, v)
		}
	}
	if name != "" {
		if v := s.invalid[Key{Namespace: namespace, Name: name}]; v != nil {
			add(v)
		}
		return found
	}
	for key, v := range s.invalid {
		if namespace == "" || key.Namespace == namespace {
			add(v)
		}
	}
	return found
}

// Standing returns those of some invalidations that still stand.
func (s *Store) Standing(invalid []*Invalidation) []*Invalidation {
	s.writing.Lock()
	defer s.writing.Unlock()
	var standing []*Invalidation
	for _, v := range invalid {
		if s.invalid[v.Key] == v {
			standing = append(standing, v)
		}
	}
	return standing
}

// Revalidated takes what a live read found that began after the invalidation: the
// object, or nil, as of a resource version. Only what matches the selector is
// found. Reads see it until the watch has caught up.
func (s *Store) Revalidated(v *Invalidation, obj client.Object, version uint64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if obj != nil {
		s.wrote(obj)
	} else {
		s.absent(v.Key, version)
	}
	s.validate(v)
}

// Validate gives up on an invalidation: reads see what the store has.
func (s *Store) Validate(v *Invalidation) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.validate(v)
}

// endsWithProgress tells whether the write is known to be among what the watch has
// told once it has told everything up to the version.
func (v *Invalidation) endsWithProgress() bool {
	return v.deleted == "" && v.version != 0
}

// catchUp removes the invalidation of a key if an object by that name is as late as
// what the invalidation is about. Deleted is set if the object has gone. The caller
// is the writer.
func (s *Store) catchUp(key Key, r *record, deleted bool) {
	if len(s.invalid) == 0 {
		return
	}
	v := s.invalid[key]
	switch {
	case v == nil:
		return
	case v.endsWithProgress():
		if r.version < v.version {
			return
		}
	case v.deleted != "" && v.deleted == r.uid:
		// That it is terminating says nothing: it may have been before. It may also
		// have left the selector before, and come back.
		if !deleted || v.version == 0 || r.version <= v.version {
			return
		}
	case v.version == 0 || r.version <= v.version:
		return
	}
	s.validate(v)
}

// validateAbsent removes the invalidations of deleted objects that a list of a
// version, which would have held them otherwise, did not hold. The caller is the
// writer.
func (c *Scope) validateAbsent(version uint64) {
	s := c.store
	for key, v := range s.invalid {
		if v.deleted == "" || v.version == 0 || v.version > version || s.scope(key.Namespace) != c {
			continue
		}
		if e := s.entry(key); e == nil || e.watched == nil || e.watched.uid != v.deleted {
			s.validate(v)
		}
	}
}

// reaches tells whether a record is of a version or a later one.
func (r *record) reaches(version uint64) bool {
	return r != nil && r.version >= version
}
