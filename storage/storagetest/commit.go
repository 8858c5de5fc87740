package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"flyball.dev/storage"
)

// testCommit writes several keys at one revision, and reads, watches and compacts at this revision.
func testCommit(t *testing.T, s storage.Store) {
	a, b := put(t, s, "a", "1"), put(t, s, "b", "1")
	w := watch(t, s, "", 0)
	defer w.Close()
	records, err := s.Commit(ctx, []storage.Write{
		{Key: "c", Value: []byte("2"), If: storage.Absent},
		{Key: "b", Delete: true, If: b.Revision},
		{Key: "a", Value: []byte("2"), If: a.Revision, Require: []storage.Condition{{Key: "b", If: b.Revision}}},
	})
	if err != nil || len(records) != 3 {
		t.Fatalf("Commit: %d records, %v", len(records), err)
	}
	revision := b.Revision + 1
	for _, r := range records {
		if r.Revision != revision {
			t.Errorf("%s is at revision %d, want %d", r.Key, r.Revision, revision)
		}
	}
	after := put(t, s, "d", "1")
	want := []string{"4 1 c=2 since 4", "4 3 b=1 since 3, was 1 of 3", "4 2 a=2 since 2, version 2, was 1 of 2", "5 1 d=1 since 5"}
	if got := take(t, w, 4); !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
	late := watch(t, s, "", b.Revision)
	defer late.Close()
	if got := take(t, late, 4); !slices.Equal(got, want) {
		t.Errorf("the events after revision %d are %q, want %q", b.Revision, got, want)
	}
	for revision, want := range map[uint64]string{b.Revision: "[a=1 b=1]", revision: "[a=2 c=2]", after.Revision: "[a=2 c=2 d=1]"} {
		if got := contents(t, s, revision); got != want {
			t.Errorf("the contents at revision %d are %s, want %s", revision, got, want)
		}
	}
	if err := s.Compact(ctx, revision); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, s, revision); got != "[a=2 c=2]" {
		t.Errorf("the contents at the compacted revision are %s", got)
	}
	rest := watch(t, s, "", revision)
	defer rest.Close()
	if got := take(t, rest, 1); got[0] != "5 1 d=1 since 5" {
		t.Errorf("the events after the compacted revision are %q", got)
	}
}

// contents returns the keys and values at a revision.
func contents(t testing.TB, s storage.Store, revision uint64) string {
	t.Helper()
	page, err := s.Range(ctx, storage.Query{Revision: revision})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range page.Records {
		all = append(all, r.Key+"="+string(r.Value()))
	}
	return fmt.Sprint(all)
}

// testRefusedCommit refuses transactions because of one of their writes.
func testRefusedCommit(t *testing.T, s storage.Store) {
	a := put(t, s, "a", "1")
	fine := storage.Write{Key: "fine", Value: []byte("1"), If: storage.Absent}
	for _, test := range []struct {
		name   string
		writes []storage.Write
		want   error
		keys   []string // of the current records
	}{
		{"conflict", []storage.Write{fine, {Key: "a", If: storage.Absent}}, storage.ErrConflict, []string{"", "a"}},
		{"conflict of a deletion", []storage.Write{fine, {Key: "a", Delete: true, If: a.Revision + 1}}, storage.ErrConflict, []string{"", "a"}},
		{"a deletion of nothing", []storage.Write{{Key: "a", If: storage.Any}, {Key: "b", Delete: true, If: storage.Any}}, storage.ErrNotFound, []string{"a", ""}},
		{"condition", []storage.Write{fine, {Key: "a", If: a.Revision, Require: []storage.Condition{{Key: "fine", If: a.Revision}}}}, storage.ErrCondition, nil},
		{"a condition on a key of the transaction", []storage.Write{fine, {Key: "b", Require: []storage.Condition{{Key: "fine", If: storage.Any}, {Key: "a", If: storage.Absent}}}}, storage.ErrCondition, nil},
		{"key", []storage.Write{fine, {}}, storage.ErrKey, nil},
		{"duplicate", []storage.Write{fine, {Key: "a", If: storage.Any}, fine}, storage.ErrDuplicate, nil},
	} {
		before, _, _ := s.Revisions(ctx)
		records, err := s.Commit(ctx, test.writes)
		wantErr(t, test.name, err, test.want)
		var keys []string
		for _, r := range records {
			if r == nil {
				keys = append(keys, "")
			} else {
				keys = append(keys, r.Key)
			}
		}
		after, _, _ := s.Revisions(ctx)
		if _, err := s.Get(ctx, "fine"); !slices.Equal(keys, test.keys) || after != before || !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: returned %q, want %q; revision %d after %d; then read with %v", test.name, keys, test.keys, after, before, err)
		}
	}
	before, _, _ := s.Revisions(ctx)
	records, err := s.Commit(ctx, nil)
	if after, _, _ := s.Revisions(ctx); len(records) > 0 || err != nil || after != before {
		t.Errorf("without writes: %d records, %v, revision %d after %d", len(records), err, after, before)
	}
}

// testLargeCommits writes as many keys at one revision as possible, several times. A watcher gets the events of a revision
// together.
func testLargeCommits(t *testing.T, s storage.Store) {
	const n = storage.MaxOperations
	var writes []storage.Write
	for i := range n {
		writes = append(writes, storage.Write{Key: fmt.Sprintf("k/%d", i), If: storage.Any})
	}
	w := watch(t, s, "", 0)
	defer w.Close()
	for range 20 {
		put(t, s, "a", "")
		if _, err := s.Commit(ctx, writes); err != nil {
			t.Fatal(err)
		}
	}
	writes = append(writes, storage.Write{Key: "k/last"})
	_, err := s.Commit(ctx, writes)
	wantErr(t, "too many writes", err, storage.ErrTooMany)
	latest := put(t, s, "b", "").Revision
	for seen := storage.First; seen < latest; {
		events, revision, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		of := map[uint64]int{}
		for _, e := range events {
			if e.Record.Revision <= seen || e.Record.Revision > revision {
				t.Fatalf("the events after revision %d up to %d have revision %d", seen, revision, e.Record.Revision)
			}
			of[e.Record.Revision]++
		}
		for revision, got := range of {
			if got != 1 && got != n {
				t.Errorf("got %d events of revision %d together", got, revision)
			}
		}
		if seen = revision; len(events) == 0 && seen < latest {
			<-w.Ready()
		}
	}
}

// testConcurrentCommits lets writers increment two counters together, and move a third key. Nobody may see the counters
// differ.
func testConcurrentCommits(t *testing.T, s storage.Store) {
	if _, err := s.Commit(ctx, []storage.Write{{Key: "x", Value: []byte("0")}, {Key: "y", Value: []byte("0")}}); err != nil {
		t.Fatal(err)
	}
	w := watch(t, s, "", 0)
	defer w.Close()
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for i := range writers {
		writing.Go(func() {
			for range rounds {
				if err := incrementBoth(s, fmt.Sprint("by/", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	reading.Go(func() {
		for {
			page, err := s.Range(ctx, storage.Query{})
			if err != nil {
				t.Error(err)
				return
			}
			values := map[string]string{}
			for _, r := range page.Records {
				values[r.Key] = string(r.Value())
			}
			if values["x"] != values["y"] {
				t.Errorf("at revision %d, x is %s and y is %s", page.Revision, values["x"], values["y"])
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	events := follow(t, w, 3*writers*rounds)
	writing.Wait()
	close(done)
	reading.Wait()
	for i := 0; i+2 < len(events); i += 3 {
		x, y, by := events[i].Record, events[i+1].Record, events[i+2].Record
		if x.Key != "x" || y.Key != "y" || x.Revision != y.Revision || by.Revision != x.Revision || string(x.Value()) != string(y.Value()) {
			t.Fatalf("the events %q, %q and %q are not of one transaction", describe(events[i]), describe(events[i+1]), describe(events[i+2]))
		}
		if want := strconv.Itoa(i/3 + 1); string(x.Value()) != want {
			t.Fatalf("x is %s, want %s", x.Value(), want)
		}
	}
}

// incrementBoth adds one to the numbers under x and y, and writes a key.
func incrementBoth(s storage.Store, key string) error {
	x, err := s.Get(ctx, "x")
	if err != nil {
		return err
	}
	for {
		n, _ := strconv.Atoi(string(x.Value()))
		next := []byte(strconv.Itoa(n + 1))
		current, err := s.Commit(ctx, []storage.Write{
			{Key: "x", Value: next, If: x.Revision}, {Key: "y", Value: next, If: x.Revision}, {Key: key, Value: next, If: storage.Any},
		})
		if err == nil || !errors.Is(err, storage.ErrConflict) {
			return err
		}
		x = current[0]
	}
}
