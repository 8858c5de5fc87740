// Package storagetest is a conformance suite for [storage.Store]. Every implementation and every wrapper of a store has
// to pass the suite.
//
// The suite compares a store with a model that is the list of all writes, over random histories.
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"flyball.dev/storage"
)

// Open returns an empty store. The suite closes it.
type Open func(t testing.TB) storage.Store

// Run runs the suite. Each test opens a new store.
func Run(t *testing.T, open Open) {
	tests := []struct {
		name string
		run  func(*testing.T, storage.Store)
	}{
		{"Empty", testEmpty},
		{"Write", testWrite},
		{"Conflict", testConflict},
		{"Condition", testCondition},
		{"ConcurrentConditions", testConcurrentConditions},
		{"EndedContext", testEndedContext},
		{"Keys", testKeys},
		{"OnCommit", testOnCommit},
		{"Commit", testCommit},
		{"RefusedCommit", testRefusedCommit},
		{"LargeCommits", testLargeCommits},
		{"ConcurrentCommits", testConcurrentCommits},
		{"Transact", testTransact},
		{"ConcurrentTransactions", testConcurrentTransactions},
		{"Pages", testPages},
		{"OldRevision", testOldRevision},
		{"Many", testMany},
		{"Watch", testWatch},
		{"WatchFuture", testWatchFuture},
		{"Progress", testProgress},
		{"SlowWatcher", testSlowWatcher},
		{"CloseWatcher", testCloseWatcher},
		{"Compact", testCompact},
		{"Expiry", testExpiry},
		{"ClockJump", testClockJump},
		{"Leases", testLeases},
		{"LeaseExpiry", testLeaseExpiry},
		{"Close", testClose},
		{"Concurrent", testConcurrent},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			defer s.Close()
			test.run(t, s)
		})
	}
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("History/%d", seed), func(t *testing.T) {
			s := open(t)
			defer s.Close()
			Replay(t, s, program(seed))
		})
	}
}

// program returns a random program for Replay.
func program(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	p := make([]byte, 3000)
	for i := range p {
		p[i] = byte(random.Uint32())
	}
	return p
}

var ctx = context.Background()

// put writes a record unconditionally.
func put(t testing.TB, s storage.Store, key, value string) *storage.Record {
	t.Helper()
	r, err := s.Put(ctx, storage.Write{Key: key, Value: []byte(value), If: storage.Any})
	if err != nil {
		t.Fatalf("Put(%q): %v", key, err)
	}
	return r
}

func watch(t testing.TB, s storage.Store, path string, after uint64) storage.Watcher {
	t.Helper()
	w, err := s.Watch(ctx, path, after)
	if err != nil {
		t.Fatalf("Watch(%q, %d): %v", path, after, err)
	}
	return w
}

// next waits until the watcher has events, and returns them.
func next(t testing.TB, w storage.Watcher) []*storage.Event {
	t.Helper()
	for {
		events, _, err := w.Next()
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		if len(events) > 0 {
			return events
		}
		<-w.Ready()
	}
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

// as returns a store with an optional interface, or skips the test.
func as[T storage.Store](t *testing.T, s storage.Store) T {
	extended, ok := s.(T)
	if !ok {
		t.Skipf("not a %v", reflect.TypeFor[T]())
	}
	return extended
}

func keys(records []*storage.Record) []string {
	var keys []string
	for _, r := range records {
		keys = append(keys, r.Key)
	}
	return keys
}

func testEmpty(t *testing.T, s storage.Store) {
	latest, oldest, err := s.Revisions(ctx)
	if latest != storage.First || oldest != storage.First || err != nil {
		t.Errorf("Revisions: %d, %d, %v", latest, oldest, err)
	}
	page, err := s.Range(ctx, storage.Query{})
	if len(page.Records) != 0 || page.Revision != storage.First || page.Remaining != 0 || err != nil {
		t.Errorf("Range: %+v, %v", page, err)
	}
	_, err = s.Get(ctx, "a")
	wantErr(t, "Get", err, storage.ErrNotFound)
	_, err = s.Delete(ctx, "a", storage.Any)
	wantErr(t, "Delete", err, storage.ErrNotFound)
}

func testWrite(t *testing.T, s storage.Store) {
	a := put(t, s, "a", "1")
	if a.Key != "a" || string(a.Value()) != "1" || a.Revision != storage.First+1 || a.Created != a.Revision {
		t.Errorf("created: %+v", a)
	}
	b := put(t, s, "a", "2")
	if string(b.Value()) != "2" || b.Revision <= a.Revision || b.Created != a.Revision {
		t.Errorf("modified: %+v", b)
	}
	if got, err := s.Get(ctx, "a"); err != nil || got.Revision != b.Revision || string(got.Value()) != "2" {
		t.Errorf("Get: %+v, %v", got, err)
	}
	gone, err := s.Delete(ctx, "a", b.Revision)
	if err != nil || string(gone.Value()) != "2" || gone.Revision <= b.Revision || gone.Created != a.Revision {
		t.Errorf("Delete: %+v, %v", gone, err)
	}
	_, err = s.Get(ctx, "a")
	wantErr(t, "Get of a deleted key", err, storage.ErrNotFound)
	again := put(t, s, "a", "3")
	if again.Created != again.Revision || again.Revision <= gone.Revision {
		t.Errorf("created again: %+v", again)
	}
}

// testEndedContext writes with contexts that are done. These writes must change nothing.
func testEndedContext(t *testing.T, s storage.Store) {
	a := put(t, s, "a", "1")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, tc := range []struct {
		ctx  context.Context
		want error
	}{
		{ended, context.Canceled},
		{PastDeadline{ctx}, context.DeadlineExceeded},
	} {
		_, err := s.Put(tc.ctx, storage.Write{Key: "a", Value: []byte("2"), If: storage.Any})
		wantErr(t, "Put", err, tc.want)
		_, err = s.Put(tc.ctx, storage.Write{Key: "b", If: storage.Absent})
		wantErr(t, "Put of an absent key", err, tc.want)
		_, err = s.Delete(tc.ctx, "a", storage.Any)
		wantErr(t, "Delete", err, tc.want)
	}
	if latest, _, _ := s.Revisions(ctx); latest != a.Revision {
		t.Errorf("ended contexts have changed the revision to %d", latest)
	}
}

// PastDeadline is a context with a past deadline and a timer that has not fired yet.
type PastDeadline struct{ context.Context }

// Deadline implements [context.Context].
func (PastDeadline) Deadline() (time.Time, bool) { return time.Now(), true }

// testConflict writes under conditions that do not hold. These writes must change nothing.
func testConflict(t *testing.T, s storage.Store) {
	a := put(t, s, "a", "1")
	for _, expect := range []uint64{storage.Absent, a.Revision - 1, a.Revision + 1} {
		got, err := s.Put(ctx, storage.Write{Key: "a", Value: []byte("2"), If: expect})
		wantErr(t, "Put", err, storage.ErrConflict)
		if got == nil || got.Revision != a.Revision {
			t.Errorf("Put if %d: got %+v", expect, got)
		}
		got, err = s.Delete(ctx, "a", expect)
		wantErr(t, "Delete", err, storage.ErrConflict)
		if got == nil || got.Revision != a.Revision {
			t.Errorf("Delete if %d: got %+v", expect, got)
		}
	}
	got, err := s.Put(ctx, storage.Write{Key: "b", If: a.Revision})
	wantErr(t, "Put of an absent key", err, storage.ErrConflict)
	if got != nil {
		t.Errorf("Put of an absent key: got %+v", got)
	}
	if latest, _, _ := s.Revisions(ctx); latest != a.Revision {
		t.Errorf("conflicts have changed the revision to %d", latest)
	}
	if _, err := s.Put(ctx, storage.Write{Key: "a", If: a.Revision}); err != nil {
		t.Errorf("Put at the right revision: %v", err)
	}
	if _, err := s.Put(ctx, storage.Write{Key: "b", If: storage.Absent}); err != nil {
		t.Errorf("Put of an absent key: %v", err)
	}
}

func testKeys(t *testing.T, s storage.Store) {
	_, err := s.Put(ctx, storage.Write{If: storage.Any})
	wantErr(t, "Put of no key", err, storage.ErrKey)
	all := []string{"/a", "/a/", "/a/b", "/a/b/c", "/a0", "/ab", "b"} // '/' is before '0'
	for _, key := range all {
		put(t, s, key, "")
	}
	for path, want := range map[string][]string{
		"":      all,
		"/":     all[:6],
		"/a/":   {"/a/", "/a/b", "/a/b/c"},
		"/a/b/": {"/a/b/c"},
		"/a":    {"/a"},
		"/a/b":  {"/a/b"},
		"/b":    nil,
		"c/":    nil,
	} {
		page, err := s.Range(ctx, storage.Query{Path: path})
		if got := keys(page.Records); err != nil || !slices.Equal(got, want) {
			t.Errorf("Range(%q): %q, %v; want %q", path, got, err, want)
		}
	}
}

func testOnCommit(t *testing.T, s storage.Store) {
	var committed *storage.Record
	w := storage.Write{Key: "a", If: storage.Absent, OnCommit: func(r *storage.Record) {
		committed = r
		r.SetCached(t, r.Revision)
	}}
	r, err := s.Put(ctx, w)
	if err != nil || committed != r || r.Cached(t) != r.Revision {
		t.Errorf("committed %p with cached value %v, put %p, %v", committed, r.Cached(t), r, err)
	}
	committed = nil
	_, err = s.Put(ctx, w)
	wantErr(t, "Put", err, storage.ErrConflict)
	if committed != nil {
		t.Error("committed a write that failed")
	}
}

// testPages reads pages of one revision while other goroutines write.
func testPages(t *testing.T, s storage.Store) {
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprintf("p/%02d", i))
		put(t, s, want[i], "")
	}
	put(t, s, "q", "")
	latest, _, _ := s.Revisions(ctx)

	var got []string
	q := storage.Query{Path: "p/", Limit: 10}
	for _, remaining := range []int{15, 5, 0} {
		page, err := s.Range(ctx, q)
		if err != nil || page.Remaining != remaining || page.Revision != latest {
			t.Fatalf("from %q: %d remain at %d, %v; want %d at %d", q.Start, page.Remaining, page.Revision, err,
				remaining, latest)
		}
		got = append(got, keys(page.Records)...)
		q.Start, q.Revision = got[len(got)-1]+"\x00", page.Revision
		// The pages that follow do not contain these writes.
		put(t, s, "p/00x", "")
		put(t, s, "p/24", "changed")
		if _, err := s.Delete(ctx, "p/23", storage.Any); err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func testOldRevision(t *testing.T, s storage.Store) {
	put(t, s, "a", "1")
	put(t, s, "b", "1")
	then := put(t, s, "c", "1").Revision
	put(t, s, "b", "2")
	s.Delete(ctx, "a", storage.Any)
	put(t, s, "a", "3")
	put(t, s, "d", "1")
	page, err := s.Range(ctx, storage.Query{Revision: then})
	if got := keys(page.Records); err != nil || page.Revision != then || !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Fatalf("Range: %q at %d, %v", got, page.Revision, err)
	}
	for _, r := range page.Records {
		if string(r.Value()) != "1" || r.Revision > then {
			t.Errorf("%s is %q of revision %d", r.Key, r.Value(), r.Revision)
		}
	}
	latest, _, _ := s.Revisions(ctx)
	_, err = s.Range(ctx, storage.Query{Revision: latest + 1})
	wantErr(t, "Range in the future", err, storage.ErrFuture)
}

// testExpiry checks that only records that still expire are deleted.
func testExpiry(t *testing.T, s storage.Store) {
	w := watch(t, s, "", 0)
	defer w.Close()
	soon, late := time.Now().Add(20*time.Millisecond), time.Now().Add(time.Hour)
	for key, expires := range map[string]time.Time{"soon": soon, "late": late, "kept": soon, "later": soon} {
		if _, err := s.Put(ctx, storage.Write{Key: key, Expires: expires}); err != nil {
			t.Fatal(err)
		}
	}
	kept := put(t, s, "kept", "")
	later, err := s.Put(ctx, storage.Write{Key: "later", If: storage.Any, Expires: late})
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]uint64{"kept": kept.Revision, "later": later.Revision} // a slow disk may have let them expire before
	for {
		for _, e := range next(t, w) {
			if e.Type != storage.Deleted || e.Record.Revision < written[e.Record.Key] {
				continue
			}
			if e.Record.Key != "soon" || time.Now().Before(soon) {
				t.Errorf("%s was deleted", e.Record.Key)
			}
			if page, err := s.Range(ctx, storage.Query{}); err != nil || len(page.Records) != 3 {
				t.Errorf("left: %q, %v", keys(page.Records), err)
			}
			return
		}
	}
}

func testClose(t *testing.T, s storage.Store) {
	put(t, s, "a", "1")
	w := watch(t, s, "", 0)
	defer w.Close()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	<-w.Ready()
	_, _, err := w.Next()
	wantErr(t, "Next", err, storage.ErrClosed)
	_, _, err = s.Revisions(ctx)
	wantErr(t, "Revisions", err, storage.ErrClosed)
	_, err = s.Get(ctx, "a")
	wantErr(t, "Get", err, storage.ErrClosed)
	_, err = s.Range(ctx, storage.Query{})
	wantErr(t, "Range", err, storage.ErrClosed)
	_, err = s.Put(ctx, storage.Write{Key: "a", If: storage.Any})
	wantErr(t, "Put", err, storage.ErrClosed)
	_, err = s.Delete(ctx, "a", storage.Any)
	wantErr(t, "Delete", err, storage.ErrClosed)
	_, err = s.Watch(ctx, "", 0)
	wantErr(t, "Watch", err, storage.ErrClosed)
	wantErr(t, "Compact", s.Compact(ctx, storage.First), storage.ErrClosed)
}

// testMany compares pages of several revisions with the expected records. The records are so many that trees have
// several levels.
func testMany(t *testing.T, s storage.Store) {
	random := rand.New(rand.NewPCG(1, 2))
	type state struct {
		revision uint64
		records  []*storage.Record
	}
	now := map[string]*storage.Record{}
	var states []state
	for i := range 6000 {
		key := fmt.Sprintf("%c/%04d", 'a'+rune(i%3), random.IntN(1500))
		if _, ok := now[key]; ok && random.IntN(3) > 0 {
			if _, err := s.Delete(ctx, key, storage.Any); err != nil {
				t.Fatal(err)
			}
			delete(now, key)
		} else {
			now[key] = put(t, s, key, "")
		}
		if i%1000 == 999 {
			latest, _, _ := s.Revisions(ctx)
			states = append(states, state{latest, sorted(now)})
		}
	}
	for _, then := range states {
		for _, path := range []string{"", "a/", "b/", "b/0100", "none/"} {
			for _, q := range []storage.Query{
				{},
				{Limit: 1},
				{Limit: 100},
				{Limit: 100, Start: "b/0500"},
				{Limit: 7, Start: "b/0100\x00"},
				{Limit: 5000},
			} {
				q.Path, q.Revision = path, then.revision
				got, err := s.Range(ctx, q)
				if err != nil {
					t.Fatalf("Range(%+v): %v", q, err)
				}
				want := cut(q, then.records)
				if got.Remaining != want.Remaining || !slices.Equal(keys(got.Records), keys(want.Records)) {
					t.Errorf("Range(%+v): %d records and %d; want %d and %d", q, len(got.Records), got.Remaining,
						len(want.Records), want.Remaining)
				}
			}
		}
	}
}
