package store

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// Invalidation marks a key with a stale object in the store: a write of this process
// changed or deleted it, and the answer did not contain the new state, or not all of
// it. A read of the key must ask the server unless the watch has caught up by then.
// An Invalidation is immutable once it is in the store.
type Invalidation struct {
	Key Key
	// version is the resource version that the watch must reach. For a deletion it
	// is one at which the object still existed. Zero if it is not known.
	version uint64
	// deleted is the UID of the object that was deleted, or is terminating since. It is
	// empty if the write was not a deletion, or if the UID is not known.
	deleted types.UID
	// expires is the deadline (see deadlines).
	expires time.Duration
}

// invalidations are the invalidations in effect, by key. They belong to the writer.
type invalidations struct {
	byKey map[Key]*Invalidation
	// count is their number, for others (see Store.unlock).
	count atomic.Int64
	// unbounded are the invalidations that the progress of a watch does not end, in the order in which
	// they were made.
	unbounded queue[*Invalidation]
}

// add adds an invalidation, and merges it with the one of the key. It reports whether the progress of a
// watch ends it.
func (i *invalidations) add(v *Invalidation) (endsWithProgress bool) {
	if other := i.byKey[v.Key]; other != nil {
		switch {
		case other.deleted != v.deleted, other.version == 0, v.version == 0:
			// No event ends both, so only a live read does.
			v.version, v.deleted = 0, ""
		default:
			v.version = max(v.version, other.version)
		}
	}
	i.byKey[v.Key] = v
	if v.endsWithProgress() {
		return true
	}
	for oldest, ok := i.unbounded.peek(); ok && !i.inEffect(oldest); oldest, ok = i.unbounded.peek() {
		i.unbounded.pop()
	}
	i.unbounded.push(v)
	return false
}

// inEffect reports whether an invalidation is still in effect.
func (i *invalidations) inEffect(v *Invalidation) bool { return i.byKey[v.Key] == v }

// end ends an invalidation, if it is still in effect.
func (i *invalidations) end(v *Invalidation) {
	if i.inEffect(v) {
		delete(i.byKey, v.Key)
	}
}

// endBy ends the invalidation of a key if st, a state of the object with that key, is as new
// as the write that caused it. Deleted is set if the object was deleted.
func (i *invalidations) endBy(key Key, st *state, deleted bool) {
	if len(i.byKey) == 0 {
		return
	}
	v := i.byKey[key]
	switch {
	case v == nil:
		return
	case v.endsWithProgress():
		if st.version < v.version {
			return
		}
	case v.deleted != "" && v.deleted == st.uid:
		// The object may have been terminating before this deletion, so only its end
		// counts, and only a later one: before, it may just have stopped matching the
		// selector.
		if !deleted || v.version == 0 || st.version <= v.version {
			return
		}
	case v.version == 0 || st.version <= v.version:
		return
	}
	i.end(v)
}

// Invalidate records that a write brought an object to a resource version but did not
// return its new state. If version is zero, the resource version is not known either,
// and only a live read makes the key valid again.
func (s *Store) Invalidate(key Key, version uint64) {
	s.writing.Lock()
	defer s.unlock()
	c, r := s.scope(key.Namespace), s.records.get(key)
	switch {
	case c == nil:
		return
	case version == 0:
	case version <= c.progress,
		r != nil && (r.watched.reaches(version) || r.overlay != nil && r.overlay.version >= version):
		return
	}
	s.invalidate(c, &Invalidation{Key: key, version: version})
}

// InvalidateDeleted records that the deletion of the object with a UID was accepted,
// and that the object is now either terminating or gone. Version is a resource version
// that it had before.
func (s *Store) InvalidateDeleted(key Key, uid types.UID, version uint64) {
	s.writing.Lock()
	defer s.unlock()
	c, r := s.scope(key.Namespace), s.records.get(key)
	switch {
	case c == nil:
		return
	case r == nil && version <= c.progress:
		// The watch has delivered the deletion.
		return
	case r != nil && r.overlay != nil && r.overlay.deleted == uid:
		return
	case r != nil && r.visible != nil && r.visible.uid != "" && r.visible.uid != uid &&
		r.visible.version > version && version != 0:
		// There is a newer object with that name.
		return
	}
	s.invalidate(c, &Invalidation{Key: key, version: version, deleted: uid})
}

// invalidate adds an invalidation. The caller is the writer.
func (s *Store) invalidate(c *Scope, v *Invalidation) {
	v.expires = s.deadlines.begin()
	if s.invalid.add(v) {
		c.invalid.push(v)
	}
	s.dropExpired()
}

// Invalid returns the keys that must be read live before a read of one key, of a
// namespace if name is empty, or of everything if namespace is empty too.
func (s *Store) Invalid(namespace, name string) []*Invalidation {
	if s.invalid.count.Load() == 0 {
		return nil
	}
	s.writing.Lock()
	defer s.unlock()
	s.dropExpired()
	var found []*Invalidation
	add := func(v *Invalidation) {
		if v.endsWithProgress() && v.version <= s.scope(v.Key.Namespace).progress {
			s.invalid.end(v)
		} else {
			found = append(found, v)
		}
	}
	if name != "" {
		if v := s.invalid.byKey[Key{Namespace: namespace, Name: name}]; v != nil {
			add(v)
		}
		return found
	}
	for key, v := range s.invalid.byKey {
		if namespace == "" || key.Namespace == namespace {
			add(v)
		}
	}
	return found
}

// InEffect returns the invalidations that are still in effect.
func (s *Store) InEffect(invalid []*Invalidation) []*Invalidation {
	s.writing.Lock()
	defer s.unlock()
	var inEffect []*Invalidation
	for _, v := range invalid {
		if s.invalid.inEffect(v) {
			inEffect = append(inEffect, v)
		}
	}
	return inEffect
}

// Revalidated ends an invalidation with the result of a live read that began after it: the object,
// or nil if none matches the selector, as of a resource version. The result is visible until the
// watch has caught up.
func (s *Store) Revalidated(v *Invalidation, obj client.Object, version uint64) {
	s.writing.Lock()
	defer s.unlock()
	if obj != nil {
		s.wrote(obj)
	} else {
		s.absent(v.Key, version)
	}
	s.invalid.end(v)
}

// Validate ends an invalidation without a live read: reads return the object of the store.
func (s *Store) Validate(v *Invalidation) {
	s.writing.Lock()
	defer s.unlock()
	s.invalid.end(v)
}

// endsWithProgress reports whether the invalidation ends once the watch has delivered
// everything up to its version.
func (v *Invalidation) endsWithProgress() bool {
	return v.deleted == "" && v.version != 0
}

// validateAbsent ends the invalidations of deleted objects that a list at a version no longer
// contained. The caller is the writer.
func (c *Scope) validateAbsent(version uint64) {
	s := c.store
	for key, v := range s.invalid.byKey {
		if v.deleted == "" || v.version == 0 || v.version > version || s.scope(key.Namespace) != c {
			continue
		}
		if r := s.records.get(key); r == nil || r.watched == nil || r.watched.uid != v.deleted {
			s.invalid.end(v)
		}
	}
}

// reaches reports whether a state is at a version or a later one.
func (st *state) reaches(version uint64) bool {
	return st != nil && st.version >= version
}
