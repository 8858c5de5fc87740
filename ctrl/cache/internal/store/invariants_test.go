package store

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"flyball.dev/internal/invariants"
)

// TestInvariants breaks invariants by hand. The next event must report each of them.
func TestInvariants(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("invariants are checked with the race detector or the build tag invariants only")
	}
	for _, test := range []struct {
		name     string
		violate  func(s *Store, c *Scope, r *record)
		violated string
	}{
		{"the overlay is visible", func(s *Store, _ *Scope, r *record) {
			s.Wrote(object("a", "u", 9))
			r.visible = r.watched
			s.check(r)
		}, "shows a state"},
		{"states are published", func(s *Store, _ *Scope, r *record) {
			r.watched.published = false
			s.check(r)
		}, "not published"},
		{"states have objects", func(s *Store, _ *Scope, r *record) {
			r.watched.decoded.Store(nil)
			s.check(r)
		}, "without an object"},
		{"records are in the store", func(s *Store, c *Scope, r *record) {
			delete(s.records.namespaces["ns"].records, "a")
			c.Pack()
		}, "is in the store: false"},
		{"postings have their records", func(s *Store, c *Scope, r *record) {
			s.indexes.labels["app"].postings["web"].remove(r)
			c.Pack()
		}, "is not in its postings"},
		{"labels are indexed", func(s *Store, c *Scope, r *record) {
			r.postings = nil
			s.checkLabels(r)
		}, "is not in the postings of app=web"},
		{"events do not go back", func(s *Store, c *Scope, r *record) {
			st := newState(object("a", "u", 1))
			c.setWatched(r, st, object("a", "u", 1))
		}, "from version 2 to 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // where no time passes, and so Pack is not called later
				s := New(ShareOnDemand)
				c := s.Scope("")
				s.add(s.indexes.labels, "app", labelValues("app"))
				obj := object("a", "u", 2)
				obj.Labels = map[string]string{"app": "web"}
				c.Changed(obj)
				defer func() {
					if got := fmt.Sprint(recover()); !strings.Contains(got, "invariant violated: ") || !strings.Contains(got, test.violated) {
						t.Errorf("got %s, want a violation with %q", got, test.violated)
					}
				}()
				test.violate(s, c, s.records.get(key("a")))
			})
		})
	}
}

// TestListenersThatChangeObjects: that is a mistake, which the mutation detector reports, and not a
// violation of an invariant.
func TestListenersThatChangeObjects(t *testing.T) {
	s := New(ShareOnDemand)
	c := s.Scope("")
	s.add(s.indexes.labels, "app", labelValues("app"))
	obj := object("a", "u", 2)
	obj.Labels = map[string]string{"app": "web"}
	c.Changed(obj).New.Object().GetLabels()["app"] = "changed"
	c.Pack()
	c.Changed(object("a", "u", 3))
	c.Pack()
}
