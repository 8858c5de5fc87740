package datadir

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestSnapshotWhileCompacting writes, compacts and writes snapshots at the same time. The directory has what was
// acknowledged.
func TestSnapshotWhileCompacting(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, small)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	repeat := func(f func() error) {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	repeat(func() error {
		latest, _, err := s.Revisions(ctx)
		return errors.Join(err, s.Compact(ctx, latest))
	})
	repeat(func() error {
		if s.snapshotting.CompareAndSwap(false, true) {
			defer s.snapshotting.Store(false)
			_, err := s.snapshot()
			return err
		}
		return nil
	})
	var writing sync.WaitGroup
	for writer := range 3 {
		writing.Go(func() {
			for i := range 150 {
				put(t, s, storage.Write{Key: fmt.Sprintf("/k/%d/%d", writer, i%10), Value: make([]byte, i), If: storage.Any})
				if i%7 == 0 {
					if _, err := s.Delete(ctx, fmt.Sprintf("/k/%d/%d", writer, i%10), storage.Any); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	busy.Wait()
	want := state(t, s)
	closeStore(t, s)
	if _, err := Check(dir); err != nil {
		t.Error(err)
	}
	s = openDir(t, dir, small)
	defer closeStore(t, s)
	if got := state(t, s); !slices.Equal(got, want) {
		t.Errorf("the directory has %q, and had %q", got, want)
	}
}

// TestCloseConcurrently closes a store several times at once while it is written to. When any of these calls has returned,
// the store is closed, and another one can be opened, which has all writes that were acknowledged.
func TestCloseConcurrently(t *testing.T) {
	dir := t.TempDir()
	var acknowledged uint64
	for round := range 20 {
		s := openDir(t, dir, small)
		if latest, _, err := s.Revisions(ctx); err != nil || latest < acknowledged {
			t.Fatalf("round %d: revision %d, and %d was acknowledged: %v", round, latest, acknowledged, err)
		}
		var writing, closing sync.WaitGroup
		started := make(chan struct{})
		writing.Go(func() {
			for i := 0; ; i++ {
				r, err := s.Put(ctx, storage.Write{Key: "/k", Value: make([]byte, 500), If: storage.Any})
				if i == 3 {
					close(started)
				}
				if errors.Is(err, storage.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged = r.Revision
			}
		})
		<-started
		for range 3 {
			closing.Go(func() {
				closeStore(t, s)
				if err := s.lock.Close(); err == nil {
					t.Error("Close has returned, and the directory is locked")
				}
			})
		}
		closing.Wait()
		writing.Wait()
	}
}

// TestCompactionSurvives: what was compacted is not there again after a restart.
func TestCompactionSurvives(t *testing.T) {
	for name, o := range map[string]Options{"log": {}, "log files": {LogFile: 1}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				put(t, s, storage.Write{Key: fmt.Sprint("k", i)})
			}
			latest, oldest, err := s.Revisions(ctx)
			if err != nil || oldest != storage.First {
				t.Fatal(latest, oldest, err)
			}
			if err := s.Compact(ctx, latest-3); err != nil {
				t.Fatal(err)
			}
			if err := s.Compact(ctx, latest+1); !errors.Is(err, storage.ErrFuture) {
				t.Errorf("a revision in the future: %v", err)
			}
			put(t, s, storage.Write{Key: "last"})
			var log compactions
			for range 2 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				log = nil
				if err := ReadLog(dir, &log); err != nil || len(log) != 1 || log[0] != latest-3 {
					t.Errorf("the log has compactions at %v, %v; want %d", log, err, latest-3)
				}
				if s, err = Open(dir, o); err != nil {
					t.Fatal(err)
				}
				if now, oldest, err := s.Revisions(ctx); err != nil || oldest != latest-3 || now != latest+1 {
					t.Errorf("the revisions are %d and %d, %v; want %d and %d", now, oldest, err, latest+1, latest-3)
				}
			}
			if _, err := s.Range(ctx, storage.Query{Revision: latest - 4}); !errors.Is(err, storage.ErrCompacted) {
				t.Errorf("a read before the compaction: %v", err)
			}
			if page, err := s.Range(ctx, storage.Query{Revision: latest - 3}); err != nil || len(page.Records) != 7 {
				t.Errorf("a read at the compaction: %d records, %v", len(page.Records), err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// compactions are the revisions of the compactions in a log.
type compactions []uint64

func (c *compactions) Leases(bool, []memory.LeaseChange)         {}
func (c *compactions) ClockSet(time.Duration)                    {}
func (c *compactions) Transaction(uint64, []storage.Write) error { return nil }
func (c *compactions) Compact(revision uint64) error {
	*c = append(*c, revision)
	return nil
}

// TestFork forks a store while others write. A fork has what the store has at the revision of the fork, writes nothing to the
// directory, and outlives the store.
func TestFork(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{LogFile: 64 << 10, SnapshotAfter: 128 << 10})
	var writing sync.WaitGroup
	stop := make(chan struct{})
	for writer := range 4 {
		writing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				w := storage.Write{Key: fmt.Sprintf("/k/%d", (i+writer)%7), Value: fmt.Appendf(nil, "%d of %d", i, writer), If: storage.Any}
				if i%5 == 4 {
					if _, err := s.Delete(ctx, w.Key, storage.Any); err != nil && !errors.Is(err, storage.ErrNotFound) {
						t.Error(err)
					}
				} else if _, err := s.Put(ctx, w); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var forks []*memory.Store
	for range 40 {
		f, err := s.Fork()
		if err != nil {
			t.Fatal(err)
		}
		forks = append(forks, f)
		got, err := f.Range(ctx, storage.Query{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := s.Range(ctx, storage.Query{Revision: got.Revision})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(lines(got.Records), lines(want.Records)) {
			t.Fatalf("at revision %d, the fork has %q, want %q", got.Revision, lines(got.Records), lines(want.Records))
		}
		if _, err := f.Put(ctx, storage.Write{Key: "/fork"}); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	writing.Wait()
	want := state(t, s)
	closeStore(t, s)
	for _, f := range forks {
		if r, err := f.Get(ctx, "/fork"); err != nil || r.Revision == 0 {
			t.Errorf("a fork of a closed store: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	s = openDir(t, dir, Options{})
	defer closeStore(t, s)
	if got := state(t, s); !slices.Equal(got, want) {
		t.Errorf("the directory has %q, want %q", got, want)
	}
}

// lines describes records.
func lines(records []*storage.Record) (all []string) {
	for _, r := range records {
		all = append(all, fmt.Sprintf("%s=%s at %d", r.Key, r.Value(), r.Revision))
	}
	return all
}
