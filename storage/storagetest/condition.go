package storagetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"flyball.dev/storage"
)

// testCondition writes a record under conditions on other records. Some conditions do not hold.
func testCondition(t *testing.T, s storage.Store) {
	parent, other := put(t, s, "parent", "1"), put(t, s, "other", "1")
	for _, test := range []struct {
		name    string
		require []storage.Condition
		want    error
	}{
		{"holds", []storage.Condition{{Key: "parent", If: parent.Revision}}, nil},
		{"any revision", []storage.Condition{{Key: "parent", If: storage.Any}}, nil},
		{"any revision of no record", []storage.Condition{{Key: "none", If: storage.Any}}, nil},
		{"absent", []storage.Condition{{Key: "none", If: storage.Absent}}, nil},
		{"both", []storage.Condition{{Key: "parent", If: parent.Revision}, {Key: "other", If: other.Revision}}, nil},
		{"an older revision", []storage.Condition{{Key: "parent", If: parent.Revision - 1}}, storage.ErrCondition},
		{"a later revision", []storage.Condition{{Key: "parent", If: other.Revision}}, storage.ErrCondition},
		{"not absent", []storage.Condition{{Key: "parent", If: storage.Absent}}, storage.ErrCondition},
		{"no record", []storage.Condition{{Key: "none", If: parent.Revision}}, storage.ErrCondition},
		{"no record, but keys below", []storage.Condition{{Key: "child", If: parent.Revision}}, storage.ErrCondition},
		{"the second", []storage.Condition{{Key: "parent", If: parent.Revision}, {Key: "other", If: parent.Revision}}, storage.ErrCondition},
	} {
		before, _, _ := s.Revisions(ctx)
		w := storage.Write{Key: "child/" + test.name, If: storage.Absent, Require: test.require}
		r, err := s.Put(ctx, w)
		wantErr(t, test.name, err, test.want)
		_, readErr := s.Get(ctx, w.Key)
		after, _, _ := s.Revisions(ctx)
		if failed := test.want != nil; failed != (r == nil) || failed != errors.Is(readErr, storage.ErrNotFound) || failed != (after == before) {
			t.Errorf("%s: returned %+v, then read with %v, revision %d after %d", test.name, r, readErr, after, before)
		}
	}

	w := storage.Write{Key: "parent", If: storage.Absent, Require: []storage.Condition{{Key: "other", If: storage.Absent}}}
	r, err := s.Put(ctx, w)
	wantErr(t, "of a record that exists", err, storage.ErrConflict)
	if r == nil || r.Revision != parent.Revision {
		t.Errorf("the present record is %+v", r)
	}
	if _, err := s.Delete(ctx, "parent", storage.Any); err != nil {
		t.Fatal(err)
	}
	again := put(t, s, "parent", "1")
	w = storage.Write{Key: "late", If: storage.Absent, Require: []storage.Condition{{Key: "parent", If: parent.Revision}}}
	_, err = s.Put(ctx, w)
	wantErr(t, "of a record that was created again", err, storage.ErrCondition)
	w.Require[0].If = again.Revision
	if _, err := s.Put(ctx, w); err != nil {
		t.Error(err)
	}
}

// testConcurrentConditions lets writers create child records while another goroutine writes and deletes the parent. The
// value of a child is the revision that it requires of the parent. No write to the parent may come between the check
// and the creation.
func testConcurrentConditions(t *testing.T, s storage.Store) {
	w := watch(t, s, "", 0)
	defer w.Close()
	var writing sync.WaitGroup
	created := make([]int, writers)
	for i := range writers {
		writing.Go(func() {
			for round := range rounds {
				required := storage.Absent
				if r, err := s.Get(ctx, "parent"); err == nil {
					required = r.Revision
				}
				_, err := s.Put(ctx, storage.Write{
					Key:     fmt.Sprintf("child/%d/%d", i, round),
					Value:   []byte(strconv.FormatUint(required, 10)),
					Require: []storage.Condition{{Key: "parent", If: required}},
				})
				switch {
				case err == nil:
					created[i]++
				case !errors.Is(err, storage.ErrCondition):
					t.Error(err)
				}
			}
		})
	}
	changes := 0
	for round := range rounds {
		put(t, s, "parent", "")
		changes++
		if round%3 == 0 {
			if _, err := s.Delete(ctx, "parent", storage.Any); err != nil {
				t.Error(err)
			}
			changes++
		}
	}
	writing.Wait()
	total := changes
	for _, n := range created {
		total += n
	}
	parent := storage.Absent
	for _, e := range follow(t, w, total) {
		switch {
		case e.Record.Key != "parent":
			if got := string(e.Record.Value()); got != strconv.FormatUint(parent, 10) {
				t.Errorf("%s requires the revision %s, but it was %d", e.Record.Key, got, parent)
			}
		case e.Type == storage.Deleted:
			parent = storage.Absent
		default:
			parent = e.Record.Revision
		}
	}
}
