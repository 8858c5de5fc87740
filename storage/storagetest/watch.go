package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"flyball.dev/storage"
)

// describe returns a description of an event that can be compared.
func describe(e *storage.Event) string {
	s := fmt.Sprintf("%d %d %s=%s since %d", e.Record.Revision, e.Type, e.Record.Key, e.Record.Value(), e.Record.Created)
	if e.Record.Version > 1 {
		s += fmt.Sprintf(", version %d", e.Record.Version)
	}
	if e.Prev != nil {
		s += fmt.Sprintf(", was %s of %d", e.Prev.Value(), e.Prev.Revision)
	}
	return s
}

// take returns the descriptions of the next n events.
func take(t testing.TB, w storage.Watcher, n int) []string {
	t.Helper()
	var got []string
	for len(got) < n {
		for _, e := range next(t, w) {
			got = append(got, describe(e))
		}
	}
	return got
}

// testWatch checks the events of several paths.
func testWatch(t *testing.T, s storage.Store) {
	watchers := map[string]storage.Watcher{}
	for _, path := range []string{"", "a/", "a/b/", "a/x"} {
		watchers[path] = watch(t, s, path, 0)
		defer watchers[path].Close()
	}
	put(t, s, "a/x", "1")   // revision 2
	put(t, s, "a/b/c", "1") // 3
	put(t, s, "a/x", "2")   // 4
	put(t, s, "z", "1")     // 5
	if _, err := s.Delete(ctx, "a/x", storage.Any); err != nil {
		t.Fatal(err)
	}
	ax := []string{"2 1 a/x=1 since 2", "4 2 a/x=2 since 2, version 2, was 1 of 2", "6 3 a/x=2 since 2, version 2, was 2 of 4"}
	abc, z := "3 1 a/b/c=1 since 3", "5 1 z=1 since 5"
	for path, want := range map[string][]string{
		"":     {ax[0], abc, ax[1], z, ax[2]},
		"a/":   {ax[0], abc, ax[1], ax[2]},
		"a/b/": {abc},
		"a/x":  ax,
	} {
		if got := take(t, watchers[path], len(want)); !slices.Equal(got, want) {
			t.Errorf("watching %q: got %q, want %q", path, got, want)
		}
		late := watch(t, s, path, storage.First)
		defer late.Close()
		if got := take(t, late, len(want)); !slices.Equal(got, want) {
			t.Errorf("watching %q afterwards: got %q, want %q", path, got, want)
		}
	}
}

// testWatchFuture watches from a revision that does not exist yet, as a client does that has read it from another server.
// The watch reports no earlier revision: bookmarks never go back.
func testWatchFuture(t *testing.T, s storage.Store) {
	w := watch(t, s, "a", 4)
	defer w.Close()
	for i := range 3 {
		if events, revision, err := w.Next(); len(events) != 0 || revision != 4 || err != nil {
			t.Errorf("Next before the revision: %d events up to %d, %v", len(events), revision, err)
		}
		put(t, s, "a", fmt.Sprint(i))
	}
	if events, revision, err := w.Next(); len(events) != 0 || revision != 4 || err != nil {
		t.Errorf("Next: %d events up to %d, %v", len(events), revision, err)
	}
	put(t, s, "a", "now")
	if got := take(t, w, 1); !slices.Equal(got, []string{"5 2 a=now since 2, version 4, was 2 of 4"}) {
		t.Errorf("got %q", got)
	}
}

// testProgress checks that a watcher reports progress although no event is for its path.
func testProgress(t *testing.T, s storage.Store) {
	w := watch(t, s, "a/", 0)
	defer w.Close()
	for range 5 {
		latest := put(t, s, "b", "").Revision
		if events, revision, err := w.Next(); len(events) != 0 || revision != latest || err != nil {
			t.Fatalf("Next: %d events up to %d, %v; want up to %d", len(events), revision, err, latest)
		}
	}
	latest := put(t, s, "a/x", "").Revision
	<-w.Ready()
	if events, revision, err := w.Next(); len(events) != 1 || revision != latest || err != nil {
		t.Errorf("Next: %d events up to %d, %v; want 1 up to %d", len(events), revision, err, latest)
	}
}

// testSlowWatcher checks that a watcher that does not read blocks no writer, and then either gets
// all events or ErrCompacted.
func testSlowWatcher(t *testing.T, s storage.Store) {
	w := watch(t, s, "a", 0)
	defer w.Close()
	quiet := watch(t, s, "q", 0)
	defer quiet.Close()
	const writes = 500
	for range writes {
		put(t, s, "a", "")
	}
	for want := storage.First + 1; want <= storage.First+writes; {
		events, revision, err := w.Next()
		if errors.Is(err, storage.ErrCompacted) {
			if _, oldest, _ := s.Revisions(ctx); oldest < want {
				t.Errorf("compacted at %d, but the history begins at %d", want, oldest)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Record.Revision != want {
				t.Fatalf("got revision %d, want %d", e.Record.Revision, want)
			}
			want++
		}
		if revision != want-1 {
			t.Fatalf("got the events up to %d, and progress up to %d", want-1, revision)
		}
	}
	put(t, s, "q", "")
	if got := next(t, quiet); len(got) != 1 {
		t.Errorf("a watcher of a quiet path has got %d events", len(got))
	}
}

func testCloseWatcher(t *testing.T, s storage.Store) {
	idle, woken, other := watch(t, s, "a", 0), watch(t, s, "a", 0), watch(t, s, "a", 0)
	defer other.Close()
	idle.Close()
	put(t, s, "a", "")
	woken.Close()
	woken.Close()
	put(t, s, "a", "")
	for _, w := range []storage.Watcher{idle, woken} {
		_, _, err := w.Next()
		wantErr(t, "Next of a closed watcher", err, storage.ErrClosed)
	}
	if got := take(t, other, 2); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

// testCompact compacts the history, and reads and watches before and after that revision.
func testCompact(t *testing.T, s storage.Store) {
	for range 10 {
		put(t, s, "a", "")
	}
	behind := watch(t, s, "a", 3)
	defer behind.Close()
	idle := watch(t, s, "b", 0)
	defer idle.Close()
	if err := s.Compact(ctx, 5); err != nil {
		t.Fatal(err)
	}
	if latest, oldest, err := s.Revisions(ctx); latest != 11 || oldest != 5 || err != nil {
		t.Errorf("Revisions: %d, %d, %v", latest, oldest, err)
	}
	_, _, err := behind.Next()
	wantErr(t, "Next of a watcher that is behind", err, storage.ErrCompacted)
	_, err = s.Watch(ctx, "a", 4)
	wantErr(t, "Watch from before", err, storage.ErrCompacted)
	_, err = s.Range(ctx, storage.Query{Revision: 4})
	wantErr(t, "Range from before", err, storage.ErrCompacted)

	w := watch(t, s, "a", 5)
	defer w.Close()
	if got := take(t, w, 6); len(got) != 6 || got[0][:2] != "6 " {
		t.Errorf("got %q", got)
	}
	if page, err := s.Range(ctx, storage.Query{Revision: 5}); err != nil || len(page.Records) != 1 ||
		page.Records[0].Revision != 5 {
		t.Errorf("Range: %+v, %v", page, err)
	}
	if err := s.Compact(ctx, 5); err != nil {
		t.Errorf("Compact again: %v", err)
	}
	wantErr(t, "Compact in the future", s.Compact(ctx, 12), storage.ErrFuture)
	put(t, s, "b", "")
	if got := take(t, idle, 1); len(got) != 1 {
		t.Errorf("got %q", got)
	}
	if err := s.Compact(ctx, 12); err != nil {
		t.Errorf("Compact at the latest: %v", err)
	}
	put(t, s, "b", "")
	if got := take(t, idle, 1); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}
