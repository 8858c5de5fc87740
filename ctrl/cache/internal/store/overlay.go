package store

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// overlay is the state that a write of this process, or a live read after one, has proved and that
// the watch has not delivered yet. It is visible in place of the watched state.
type overlay struct {
	// visible is the state, nil if the object was deleted or does not match the selector.
	visible *state
	// version is the resource version that the watch must reach to end the overlay.
	// For a deletion it is one at which the object still existed.
	version uint64
	// deleted is the UID of the deleted object. Late events of the object are ignored.
	// deleted is empty if this is not a deletion.
	deleted types.UID
}

// Wrote makes the object that the server returned for a write visible until the watch has caught
// up. The object must be complete and match the selector. Wrote does nothing for a namespace that
// the store does not cover, or for a resource version that is not a number.
func (s *Store) Wrote(obj client.Object) {
	s.writing.Lock()
	defer s.unlock()
	s.wrote(obj)
}

// wrote is Wrote for the writer.
func (s *Store) wrote(obj client.Object) {
	st := newState(obj)
	key := client.ObjectKeyFromObject(obj)
	s.invalid.endBy(key, st, false)
	c := s.scope(key.Namespace)
	if c == nil || st.version == 0 || st.version <= c.progress {
		return
	}
	r := s.records.get(key)
	switch {
	case r == nil:
		r = s.getOrAdd(key)
	case r.watched.supersedes(st), r.overlay.outlives(st):
		return
	}
	s.setOverlay(c, r, &overlay{visible: st, version: st.version})
}

// Absent records that no object under the key matches the selector as of a resource
// version: reads do not find one until the watch has caught up.
func (s *Store) Absent(key Key, version uint64) {
	s.writing.Lock()
	defer s.unlock()
	s.absent(key, version)
}

// absent is Absent for the writer.
func (s *Store) absent(key Key, version uint64) {
	if v := s.invalid.byKey[key]; v != nil && v.endsWithProgress() && v.version <= version {
		s.invalid.end(v)
	}
	c := s.scope(key.Namespace)
	if c == nil || version <= c.progress {
		return
	}
	r := s.records.get(key)
	o := &overlay{version: version}
	switch {
	case r == nil:
		r = s.getOrAdd(key)
	case r.watched.reaches(version), r.overlay != nil && r.overlay.version > version:
		return
	case r.overlay != nil:
		// What was deleted may have matched again in between.
		o.deleted = r.overlay.deleted
	}
	s.setOverlay(c, r, o)
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
	r := s.records.get(key)
	switch {
	case r == nil && version <= c.progress:
		// The watch has delivered the deletion already, or, without a version, may have.
		return
	case r == nil:
		r = s.getOrAdd(key)
	case r.overlay != nil && r.overlay.deleted == uid:
		return
	case r.visible == nil && r.overlay.deleted != "" && version <= r.overlay.version:
		return
	case r.visible == nil:
		// The object was created after what the overlay knows, and deleted.
		version = max(version, r.overlay.version)
	case uid == r.visible.uid:
		version = max(version, r.visible.version)
	case version == 0, r.visible.uid == "":
		// Without a version or a UID, the two objects cannot be ordered.
		s.invalidate(c, &Invalidation{Key: r.key, deleted: uid})
		return
	case version <= r.visible.version:
		// It was an earlier object with that name.
		return
	}
	if v := s.invalid.byKey[r.key]; v != nil && (v.deleted == uid || v.endsWithProgress() && v.version <= version) {
		s.invalid.end(v)
	}
	s.setOverlay(c, r, &overlay{version: version, deleted: uid})
}

// setOverlay sets the overlay of a record. The caller is the writer.
func (s *Store) setOverlay(c *Scope, r *record, o *overlay) {
	s.set(r, r.watched, o)
	queued := queuedOverlay{key: r.key, overlay: o, expires: s.deadlines.begin()}
	if o.deleted != "" {
		// Progress never ends the overlay of a deletion, so deletions have a queue of their own.
		s.pruneDeletions()
		s.deletions.push(queued)
	} else {
		c.overlays.push(queued)
	}
	s.dropExpired()
}

// outlives reports whether an overlay takes precedence over st, an answer that arrived later but
// has an older state.
func (o *overlay) outlives(st *state) bool {
	if o == nil {
		return false
	}
	return o.version > st.version || o.deleted != "" && (o.deleted == st.uid || o.version == st.version)
}

// after returns the overlay if it is still in effect after the watch has delivered st, and nil if
// the watch has caught up.
func (o *overlay) after(st *state) *overlay {
	switch {
	case o == nil, st.version == 0:
		return nil
	case o.deleted != "" && o.deleted == st.uid:
		return o
	case st.version > o.version, o.deleted == "" && st.version == o.version:
		return nil
	default:
		return o
	}
}

// afterDeletion is after for a DELETED event, which the watch also sends when an
// object stops matching the selector; the same object may match again later.
func (o *overlay) afterDeletion(st *state) *overlay {
	if o != nil && o.deleted != "" && o.deleted == st.uid && st.version >= o.version {
		return nil
	}
	return o.after(st)
}

// absentAt returns the overlay if it is still in effect after a list at that version did not
// contain the object: the list is older than the write.
func (o *overlay) absentAt(version uint64) *overlay {
	if o != nil && version >= o.version {
		return nil
	}
	return o
}

// queuedOverlay is an overlay in a queue, with its key and its deadline (see deadlines).
type queuedOverlay struct {
	key     Key
	overlay *overlay
	expires time.Duration
}

// progressed records that the watch has delivered all events up to a version. Overlays up to it
// that are still in effect are of objects that the watch does not select. The caller is the writer.
func (c *Scope) progressed(version uint64) {
	s := c.store
	c.progress = max(c.progress, version)
	for queued, ok := c.overlays.peek(); ok; queued, ok = c.overlays.peek() {
		if s.inEffect(queued) && queued.overlay.version > c.progress {
			break
		}
		c.overlays.pop()
		s.dropOverlay(queued)
	}
	for v, ok := c.invalid.peek(); ok; v, ok = c.invalid.peek() {
		if s.invalid.inEffect(v) && v.version > c.progress {
			break
		}
		c.invalid.pop()
		s.invalid.end(v)
	}
	s.dropExpired()
	s.evictShared()
}

// dropOverlays drops all overlays and invalidations of a scope. The caller is the writer.
func (s *Store) dropOverlays(c *Scope) {
	var dropped []queuedOverlay
	s.records.all(func(r *record) {
		if r.overlay != nil && s.scope(r.key.Namespace) == c {
			dropped = append(dropped, queuedOverlay{key: r.key, overlay: r.overlay})
		}
	})
	for _, queued := range dropped {
		s.dropOverlay(queued)
	}
	for key, v := range s.invalid.byKey {
		if s.scope(key.Namespace) == c {
			s.invalid.end(v)
		}
	}
}

// inEffect reports whether the record still has the overlay.
func (s *Store) inEffect(queued queuedOverlay) bool {
	r := s.records.get(queued.key)
	return r != nil && r.overlay == queued.overlay
}

// pruneDeletions pops the oldest deletions that are no longer in effect, mostly because the watch
// has confirmed them. The caller is the writer.
func (s *Store) pruneDeletions() {
	for queued, ok := s.deletions.peek(); ok && !s.inEffect(queued); queued, ok = s.deletions.peek() {
		s.deletions.pop()
	}
}

// dropOverlay makes the watched state visible again, if the overlay is still in effect.
func (s *Store) dropOverlay(queued queuedOverlay) {
	if s.inEffect(queued) {
		r := s.records.get(queued.key)
		s.set(r, r.watched, nil)
	}
}
