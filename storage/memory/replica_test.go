package memory_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestReplica repeats the writes of a store, some of them under another prefix, which the replica does not keep.
func TestReplica(t *testing.T) {
	for seed := range uint64(20) {
		ctx := t.Context()
		s := memory.New(memory.Options{History: 4 << 20})
		r := memory.NewReplica(memory.Options{History: 4 << 20})
		follow, err := s.Watch(ctx, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		slow, err := r.Watch(ctx, "/k/", 0)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(seed, 1))
		var want []string
		for range 30 {
			if random.IntN(2) == 0 {
				if _, err := s.Put(ctx, storage.Write{Key: "/other/x", If: storage.Any}); err != nil {
					t.Fatal(err)
				}
			}
			writeSome(t, s, random)
			want = append(want, apply(t, r, follow)...)
			compareReplica(t, s, r)
		}
		if got := drainAll(t, slow); !slices.Equal(got, want) {
			t.Errorf("the events are %q, want %q", got, want)
		}
		follow.Close()
		slow.Close()
		s.Close()
		r.Close()
	}
}

// apply gives a replica what a watcher has, and returns the events below /k/.
func apply(t testing.TB, r *memory.Replica, w storage.Watcher) (kept []string) {
	t.Helper()
	for {
		events, _, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return kept
		}
		for len(events) > 0 {
			revision := events[0].Record.Revision
			var writes []storage.Write
			for ; len(events) > 0 && events[0].Record.Revision == revision; events = events[1:] {
				e := events[0]
				if !storage.Covers("/k/", e.Record.Key) {
					continue
				}
				writes = append(writes, storage.Write{Key: e.Record.Key, Value: e.Record.Value(), Delete: e.Type == storage.Deleted})
				kept = append(kept, fmt.Sprint(e.Type, " ", e.Record.Key, " ", e.Record.Revision, e.Record.Version))
			}
			if err := r.Apply(revision, writes); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// drainAll returns the events that a watcher has.
func drainAll(t testing.TB, w storage.Watcher) (all []string) {
	t.Helper()
	for {
		events, _, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return all
		}
		for _, e := range events {
			all = append(all, fmt.Sprint(e.Type, " ", e.Record.Key, " ", e.Record.Revision, e.Record.Version))
		}
	}
}

// compareReplica compares a replica with its store at the latest and at earlier revisions.
func compareReplica(t testing.TB, s *memory.Store, r *memory.Replica) {
	t.Helper()
	latest, _, _ := s.Revisions(t.Context())
	replicated, oldest, _ := r.Revisions(t.Context())
	if replicated != latest {
		t.Fatalf("the replica is at revision %d, the store at %d", replicated, latest)
	}
	for revision := max(oldest, latest-min(latest, 20)); revision <= latest; revision++ {
		q := storage.Query{Path: "/k/", Revision: revision}
		want, err := s.Range(t.Context(), q)
		if errors.Is(err, storage.ErrCompacted) {
			continue
		}
		got, gotErr := r.Range(t.Context(), q)
		if err != nil || gotErr != nil || len(got.Records) != len(want.Records) {
			t.Fatalf("revision %d: %d records, %v; want %d, %v", revision, len(got.Records), gotErr, len(want.Records), err)
		}
		for i, w := range want.Records {
			g := got.Records[i]
			if g.Key != w.Key || g.Revision != w.Revision || g.Created != w.Created || g.Version != w.Version || string(g.Value()) != string(w.Value()) {
				t.Fatalf("revision %d: %+v, want %+v", revision, g, w)
			}
		}
		if events, err := r.Events(revision); err == nil {
			for _, e := range events {
				if e.Record.Revision != revision {
					t.Errorf("the events of revision %d have one of revision %d", revision, e.Record.Revision)
				}
			}
		}
	}
}

// TestReplicaReplace replaces the records of a replica, as after a time without the other store.
func TestReplicaReplace(t *testing.T) {
	r := memory.NewReplica(memory.Options{})
	defer r.Close()
	ctx := t.Context()
	if err := r.Apply(5, []storage.Write{{Key: "a", Value: []byte("1")}, {Key: "b"}}); err != nil {
		t.Fatal(err)
	}
	for _, refused := range []struct {
		revision uint64
		writes   []storage.Write
	}{{5, nil}, {4, []storage.Write{{Key: "a"}}}, {6, []storage.Write{{Key: "none", Delete: true}}}} {
		if err := r.Apply(refused.revision, refused.writes); err == nil {
			t.Errorf("%+v was applied", refused)
		}
	}
	w, err := r.Watch(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	records := []storage.Record{{Key: "a", Revision: 5, Created: 5, Version: 1}, {Key: "c", Revision: 9, Created: 7, Version: 3}}
	if err := r.Replace(4, nil, nil); err == nil {
		t.Error("the replica went back")
	}
	if err := r.Replace(12, records, [][]byte{[]byte("1"), []byte("3")}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Next(); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("a watcher from before: %v", err)
	}
	if latest, oldest, _ := r.Revisions(ctx); latest != 12 || oldest != 12 {
		t.Errorf("the revisions are %d and %d", latest, oldest)
	}
	if _, err := r.Get(ctx, "b"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a record that is gone: %v", err)
	}
	if c, err := r.Get(ctx, "c"); err != nil || c.Revision != 9 || c.Created != 7 || c.Version != 3 || string(c.Value()) != "3" {
		t.Errorf("a new record is %+v, %v", c, err)
	}
	if err := r.Apply(20, []storage.Write{{Key: "c", Value: []byte("4")}}); err != nil {
		t.Fatal(err)
	}
	if c, err := r.Get(ctx, "c"); err != nil || c.Revision != 20 || c.Version != 4 {
		t.Errorf("the record is %+v, %v", c, err)
	}
}
