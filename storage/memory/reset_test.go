package memory_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestReset writes, commits and deletes at random after a checkpoint, and returns to it several times.
func TestReset(t *testing.T) {
	for seed := range uint64(20) {
		s := memory.New(memory.Options{History: 8 << 10})
		random := rand.New(rand.NewPCG(seed, 1))
		writeSome(t, s, random)
		if err := s.Reset(); !errors.Is(err, storage.ErrNoCheckpoint) {
			t.Fatalf("without a checkpoint: %v", err)
		}
		if err := s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			before := revisions(t, s)
			w, err := s.Watch(t.Context(), "", 0)
			if err != nil {
				t.Fatal(err)
			}
			changed := writeSome(t, s, random)
			written, _, _ := s.Revisions(t.Context())
			if err := s.Reset(); err != nil {
				t.Fatal(err)
			}
			checkReset(t, s, before, written, changed)
			if _, _, err := w.Next(); !errors.Is(err, storage.ErrReset) {
				t.Errorf("a watcher from before gets %v", err)
			}
			w.Close()
		}
		s.Close()
	}
}

// written is a value and its revision.
type written struct {
	value    string
	revision uint64
}

// revisions returns all records by their keys.
func revisions(t testing.TB, s storage.Store) map[string]written {
	t.Helper()
	page, err := s.Range(t.Context(), storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]written{}
	for _, r := range page.Records {
		all[r.Key] = written{string(r.Value()), r.Revision}
	}
	return all
}

// writeSome makes some writes, and returns the keys that were written.
func writeSome(t testing.TB, s storage.Store, random *rand.Rand) map[string]bool {
	t.Helper()
	changed := map[string]bool{}
	for range random.IntN(40) {
		var writes []storage.Write
		for _, k := range random.Perm(10)[:1+random.IntN(3)] {
			key := fmt.Sprintf("/k/%d", k)
			_, err := s.Get(t.Context(), key)
			writes = append(writes, storage.Write{Key: key, If: storage.Any, Value: []byte(fmt.Sprint(random.IntN(1000))),
				Delete: err == nil && random.IntN(3) == 0})
			changed[key] = true
		}
		if _, err := s.Commit(t.Context(), writes); err != nil {
			t.Fatal(err)
		}
	}
	return changed
}

// checkReset compares a store after Reset with the records before: the values are the same, and the revisions of records
// that were written since are later than all writes.
func checkReset(t testing.TB, s storage.Store, before map[string]written, latest uint64, changed map[string]bool) {
	t.Helper()
	after := revisions(t, s)
	if got, want := len(after), len(before); got != want {
		t.Fatalf("there are %d records, want %d", got, want)
	}
	for key := range maps.Keys(before) {
		r, err := s.Get(t.Context(), key)
		if err != nil || string(r.Value()) != before[key].value || r.Revision != after[key].revision {
			t.Fatalf("%s is %+v, %v; want %+v", key, r, err, before[key])
		}
		if changed[key] != (r.Revision > latest) || !changed[key] && r.Revision != before[key].revision {
			t.Errorf("%s is at revision %d, was at %d, and the latest write had %d", key, r.Revision, before[key].revision, latest)
		}
	}
	revision, oldest, err := s.Revisions(t.Context())
	if err != nil || revision <= latest || oldest != revision {
		t.Errorf("the revisions are %d and %d, %v; want one after %d", revision, oldest, err, latest)
	}
}

// TestResetExpiry returns to a record that expires, after it has expired and after it was replaced.
func TestResetExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		defer s.Close()
		if _, err := s.Put(t.Context(), storage.Write{Key: "soon", If: storage.Any, Expires: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), storage.Write{Key: "soon", If: storage.Any}); err != nil {
			t.Fatal(err)
		}
		if err := s.Reset(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "soon"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if _, err := s.Get(t.Context(), "soon"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("the record that has expired: %v", err)
		}
	})
}
