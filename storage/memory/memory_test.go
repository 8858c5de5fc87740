package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storagetest.Run(t, func(testing.TB) storage.Store { return memory.New(memory.Options{}) })
}

// TestShortHistory runs programs on a store that compacts all the time, so that slow readers run
// into compacted revisions.
func TestShortHistory(t *testing.T) {
	for seed := range byte(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := memory.New(memory.Options{History: 8 << 8})
			defer s.Close()
			program := make([]byte, 4000)
			for i := range program {
				program[i] = byte(i*i>>3)*7 + seed*byte(i) + byte(i>>8)
			}
			storagetest.Replay(t, s, program)
		})
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte("flyball"), 1000)
	f.Add([]byte{1, 0, 0, 7, 1, 8, 2, 1, 13, 0, 2, 14, 0, 15, 1}, 300)
	f.Fuzz(func(t *testing.T, program []byte, history int) {
		s := memory.New(memory.Options{History: history % (100 << 8)})
		defer s.Close()
		storagetest.Replay(t, s, program)
	})
}

// TestExpiry checks in virtual time that records are deleted at the moment they expire, in that
// order.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := memory.New(memory.Options{})
		defer s.Close()
		w, err := s.Watch(ctx, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		start := time.Now()
		for i := range 10 {
			hours := time.Duration(i*7%10+1) * time.Hour
			put(t, s, storage.Write{Key: fmt.Sprintf("k%d", i), Expires: start.Add(hours)})
		}
		put(t, s, storage.Write{Key: "k0", If: storage.Any, Expires: start.Add(20 * time.Hour)})
		w.Next()
		<-w.Ready()
		for _, hours := range []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 20} {
			<-w.Ready()
			events, _, err := w.Next()
			if err != nil || len(events) != 1 || events[0].Type != storage.Deleted {
				t.Fatalf("after %v: %d events, %v", time.Since(start), len(events), err)
			}
			if r := events[0].Record; time.Since(start) != time.Duration(hours)*time.Hour || !r.Expires.Equal(time.Now()) {
				t.Errorf("%s was deleted after %v, want %d hours", r.Key, time.Since(start), hours)
			}
		}
	})
}

// TestExpiryTooEarly lets the timer fire before the record has expired, as after the clock was set back. The record remains
// until it expires.
func TestExpiryTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		defer s.Close()
		if _, err := s.Put(t.Context(), storage.Write{Key: "a", Expires: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		has := func() bool {
			_, err := s.Get(t.Context(), "a")
			return err == nil
		}
		for range 3 {
			memory.Expire(s)
			time.Sleep(10 * time.Minute) // virtual
			if !has() {
				t.Fatal("the record has expired too early")
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if has() {
			t.Error("the record has not expired")
		}
	})
}

// TestRetention checks in virtual time that events are kept for 5 minutes, and that the
// history of a quiet store becomes empty.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, start := t.Context(), time.Now()
		s := memory.New(memory.Options{})
		defer s.Close()
		idle, behind := watch(t, s, "b", 0), watch(t, s, "a", 0)
		oldest := func() uint64 {
			synctest.Wait()
			_, oldest, err := s.Revisions(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return oldest
		}
		at := map[uint64]time.Time{storage.First: start}
		for range 40 {
			r := put(t, s, storage.Write{Key: "a", If: storage.Any})
			at[r.Revision] = time.Now()
			time.Sleep(time.Minute - time.Second)
			if age := time.Since(at[oldest()+1]); age > 6*time.Minute {
				t.Errorf("revision %d is kept for %v", oldest()+1, age)
			}
			if age := time.Since(at[oldest()]); oldest() > storage.First && age < 5*time.Minute {
				t.Errorf("revision %d was kept for %v only", oldest(), age)
			}
		}
		if _, _, err := behind.Next(); !errors.Is(err, storage.ErrCompacted) {
			t.Errorf("Next of a watcher that is behind: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if latest, oldest, _ := s.Revisions(ctx); oldest != latest {
			t.Errorf("the history of a quiet store begins at %d, and the store is at %d", oldest, latest)
		}
		put(t, s, storage.Write{Key: "b"})
		if events, _, err := idle.Next(); err != nil || len(events) != 1 {
			t.Errorf("a watcher of a quiet path: %d events, %v", len(events), err)
		}
	})
}

// TestBurst checks in virtual time that many writes are remembered for a minute, and after that
// only the latest of them.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		const writes, kept = 10_000, 1000 // how many there are, and how many may be old
		s := memory.New(memory.Options{History: 8 * 256 * kept})
		defer s.Close()
		for range writes {
			put(t, s, storage.Write{Key: "a", If: storage.Any})
		}
		events := func() int {
			synctest.Wait()
			latest, oldest, err := s.Revisions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return int(latest - oldest)
		}
		for _, test := range []struct {
			after    time.Duration
			min, max int
		}{
			{0, writes, writes}, {59 * time.Second, writes, writes}, {91 * time.Second, kept - 1, kept},
			{4 * time.Minute, kept - 1, kept}, {331 * time.Second, 0, 0},
		} {
			time.Sleep(time.Until(start.Add(test.after)))
			if n := events(); n < test.min || n > test.max {
				t.Errorf("%d events after %v, want %d to %d", n, test.after, test.min, test.max)
			}
		}
	})
}

// TestCachedValues checks which records have cached values: those that are current, and those that
// were replaced a moment ago. Others have none, not even after a watcher that lags has set one.
func TestCachedValues(t *testing.T) {
	for _, test := range []struct {
		name   string
		value  int
		writes int // how many it takes until a cached value is dropped
	}{
		{"small", 10, 1024},
		{"large", 100_000, 10}, // an eighth of the history
	} {
		t.Run(test.name, func(t *testing.T) {
			s := memory.New(memory.Options{History: 8_100_000})
			defer s.Close()
			w := watch(t, s, "", 0)
			write := func(key string) *storage.Record {
				return put(t, s, storage.Write{Key: key, If: storage.Any, Value: make([]byte, test.value),
					OnCommit: func(r *storage.Record) { r.SetCached(t, 1) }})
			}
			kept, replaced, deleted := write("kept"), write("replaced"), write("deleted")
			write("replaced")
			tombstone, err := s.Delete(t.Context(), "deleted", storage.Any)
			if err != nil {
				t.Fatal(err)
			}
			tombstone.SetCached(t, 1)
			for i := range test.writes {
				if i < test.writes-4 && (replaced.Cached(t) == nil || deleted.Cached(t) == nil || tombstone.Cached(t) == nil) {
					t.Fatalf("cached values were dropped after %d writes", i)
				}
				write("other")
			}
			write("other")
			if kept.Cached(t) == nil {
				t.Error("the cached value of a current record was dropped")
			}
			for events, _, err := w.Next(); len(events) > 0; events, _, err = w.Next() {
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					e.Record.SetCached(t, 2)
				}
			}
			for _, r := range []*storage.Record{replaced, deleted, tombstone} {
				if r.Cached(t) != nil {
					t.Errorf("the record of %s at %d has a cached value", r.Key, r.Revision)
				}
			}
		})
	}
}

// TestPagesWhileWriting reads pages of several revisions at once, more than there are snapshots
// kept, while all records are changed.
func TestPagesWhileWriting(t *testing.T) {
	const records, lists, limit = 2000, 20, 100
	s := memory.New(memory.Options{})
	defer s.Close()
	for i := range records {
		put(t, s, storage.Write{Key: fmt.Sprintf("p/%04d", i)})
	}
	var queries [lists]storage.Query
	var seen [lists]int
	for page := range records / limit {
		for i := range queries {
			q := &queries[i]
			q.Path, q.Limit = "p/", limit
			got, err := s.Range(t.Context(), *q)
			if err != nil {
				t.Fatal(err)
			}
			if want := records + i - limit*(page+1); got.Remaining != want || len(got.Records) != limit {
				t.Fatalf("list %d, page %d: %d records, %d remain, want %d", i, page, len(got.Records), got.Remaining, want)
			}
			if q.Revision != 0 && q.Revision != got.Revision {
				t.Fatalf("asked for %d, got %d", q.Revision, got.Revision)
			}
			for j, r := range got.Records {
				if r.Revision > got.Revision || r.Key != fmt.Sprintf("p/%04d", page*limit+j) {
					t.Fatalf("list %d, page %d: %s at %d", i, page, r.Key, r.Revision)
				}
			}
			seen[i] += len(got.Records)
			q.Start, q.Revision = got.Records[limit-1].Key+"\x00", got.Revision
			if page == 0 {
				put(t, s, storage.Write{Key: fmt.Sprintf("p/x%d", i)})
			}
			put(t, s, storage.Write{Key: fmt.Sprintf("p/%04d", (page*lists+i)*7%records), If: storage.Any})
		}
	}
}

// TestExpiredWhenWritten checks that a record that has expired by the time it is written is
// deleted.
func TestExpiredWhenWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		defer s.Close()
		put(t, s, storage.Write{Key: "a", Expires: time.Now().Add(-time.Second)})
		time.Sleep(time.Microsecond) // virtual
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
	})
}

func watch(t testing.TB, s *memory.Store, path string, after uint64) storage.Watcher {
	t.Helper()
	w, err := s.Watch(context.Background(), path, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func put(t testing.TB, s *memory.Store, w storage.Write) *storage.Record {
	t.Helper()
	r, err := s.Put(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
