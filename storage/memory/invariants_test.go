package memory

import (
	"fmt"
	"strings"
	"testing"

	"flyball.dev/internal/invariants"
	"flyball.dev/storage"
)

// TestInvariants breaks invariants by hand. The next call that relies on a broken invariant must report it.
func TestInvariants(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("invariants are checked with the race detector or the build tag invariants only")
	}
	put := func(s *Store, key string) {
		if _, err := s.Put(t.Context(), storage.Write{Key: key, If: storage.Any}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name     string
		violate  func(*Store)
		use      func(*Store, storage.Watcher)
		violated string
	}{
		{"revisions rise", func(s *Store) { s.revision -= 2 }, func(s *Store, _ storage.Watcher) { put(s, "f") }, "f at revision"},
		{"the log is contiguous", func(s *Store) { s.history.log = s.history.log[1:] },
			func(s *Store, _ storage.Watcher) { put(s, "new") }, "events follow revision"},
		{"sizes add up", func(s *Store) { s.tree.mutable(s.tree.root).size++ },
			func(s *Store, _ storage.Watcher) { put(s, "new") }, "has size"},
		{"keys rise", func(s *Store) {
			records := s.tree.root.records
			records[2], records[3] = records[3], records[2]
		}, func(s *Store, _ storage.Watcher) { put(s, "a") }, "is before"},
		{"watchers miss nothing", func(s *Store) { s.history.log[1] = s.history.log[2] },
			func(_ *Store, w storage.Watcher) { w.Next() }, "the next event has"},
		{"undone events are the latest", func(s *Store) { s.history.log[5] = s.history.log[4] },
			func(s *Store, _ storage.Watcher) { s.Range(t.Context(), storage.Query{Revision: 3}) }, "after the event of revision"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := New(Options{})
			w, err := s.Watch(t.Context(), "", storage.First)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 6 {
				put(s, fmt.Sprintf("%c", 'a'+i))
			}
			defer s.Close()
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, "invariant violated: ") || !strings.Contains(got, test.violated) {
					t.Errorf("got %s, want a violation with %q", got, test.violated)
				}
			}()
			test.violate(s)
			test.use(s, w)
		})
	}
}
