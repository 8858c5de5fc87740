package store

import (
	"slices"

	"flyball.dev/internal/invariants"
)

// The functions here are called by the writer, and only if invariants.Enabled is set.

// check checks a record after a change: the visible state is the state of the overlay or the watched
// one, readers may access both, the record is in the store if and only if it has either, and it is in
// the postings that it refers to. check does not depend on the content of the object, which a listener
// may have changed by mistake while it is not packed.
func (s *Store) check(r *record) {
	visible := r.watched
	if r.overlay != nil {
		visible = r.overlay.visible
	}
	invariants.Check(r.visible == visible, "%s shows a state that is neither its overlay's nor the watched one", r.key)
	present := s.records.get(r.key) == r
	invariants.Check(present == (r.watched != nil || r.overlay != nil),
		"%s is in the store: %t, watched: %t, overlaid: %t",
		r.key, present, r.watched != nil, r.overlay != nil)
	for _, st := range []*state{r.watched, r.visible} {
		invariants.Check(st == nil || st.published, "%s has a state that is not published", r.key)
		invariants.Check(st == nil || !st.value.IsZero() || st.decoded.Load() != nil,
			"%s has a state without an object", r.key)
	}
	invariants.Check(r.visible != nil || len(r.postings) == 0,
		"%s is in %d postings, but not visible", r.key, len(r.postings))
	for _, p := range r.postings {
		invariants.Check(p.index.postings[p.value] == p && p.has(r), "%s is not in its postings of %q", r.key, p.value)
	}
}

// checkLabels checks a record after a change of its visible state: the record is in the postings of
// its labels.
func (s *Store) checkLabels(r *record) {
	if r.visible == nil {
		return
	}
	for label, x := range s.indexes.labels { // but not s.indexes.fields: its functions are the program's
		for _, value := range x.values(s.object(r, r.visible)) {
			invariants.Check(slices.Contains(r.postings, x.postings[value]),
				"%s is not in the postings of %s=%s", r.key, label, value)
		}
	}
}

// checkNewer checks that an event does not take a record back to an older resource version. Only a
// list may do that.
func (c *Scope) checkNewer(r *record, st *state) {
	if w := r.watched; !c.listing && w != nil && w.version != 0 && st.version != 0 {
		invariants.Check(st.version > w.version, "an event takes %s from version %d to %d", r.key, w.version, st.version)
	}
}
