package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

// journal is a journal in memory. Write calls before, if that is not nil, and fails if that does.
type journal struct {
	before func(events []*storage.Event) error

	mu      sync.Mutex
	events  []*storage.Event
	batches []memory.Batch
}

func (j *journal) Write(b memory.Batch) error {
	if j.before != nil {
		if err := j.before(b.Events); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, b.Events...)
	j.batches = append(j.batches, b)
	return nil
}

// load returns a store of what the journal has.
func (j *journal) load(t testing.TB) *memory.Store {
	t.Helper()
	l := memory.NewLoader(memory.Options{})
	for _, b := range j.batches {
		l.Leases(false, b.Leases)
		if err := l.Compact(b.Compacted); err != nil {
			t.Fatal(err)
		}
		loadEvents(t, l, b.Events)
	}
	return l.Store()
}

// loadEvents gives events to a loader.
func loadEvents(t testing.TB, l *memory.Loader, events []*storage.Event) {
	t.Helper()
	for len(events) > 0 {
		revision := events[0].Record.Revision
		if revision != l.Revision()+1 {
			t.Fatalf("the journal has revision %d after %d", revision, l.Revision())
		}
		var writes []storage.Write
		for ; len(events) > 0 && events[0].Record.Revision == revision; events = events[1:] {
			r := events[0].Record
			w := storage.Write{Key: r.Key, If: storage.Any, Delete: events[0].Type == storage.Deleted}
			if !w.Delete {
				w.Value, w.Expires, w.Lease = slices.Clone(r.Value()), r.Expires, r.Lease
			}
			writes = append(writes, w)
		}
		if err := l.Commit(writes); err != nil {
			t.Fatal(err)
		}
	}
}

// state describes a store: its revision and its records.
func state(t testing.TB, s storage.Store) []string {
	t.Helper()
	page, err := s.Range(t.Context(), storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{fmt.Sprintf("revision %d", page.Revision)}
	for _, r := range page.Records {
		lines = append(lines, fmt.Sprintf("%s=%s created %d, revision %d, version %d, expires %v", r.Key, r.Value(), r.Created, r.Revision, r.Version, r.Expires))
	}
	return lines
}

func TestStoreWithJournal(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store {
		j := &journal{}
		s := memory.New(memory.Options{Journal: j})
		t.Cleanup(func() { j.load(t).Close() })
		return s
	})
}

var errFull = errors.New("the disk is full")

// TestFailingJournal has eight writers on a store with a journal that fails often. What the writers were
// told, what readers see, and what the journal has must be the same.
func TestFailingJournal(t *testing.T) {
	together := 0 // batches with several events
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			var batches, failures int
			j := &journal{before: func(events []*storage.Event) error { // called by one goroutine at a time
				batches++
				if len(events) > 1 {
					together++
				}
				if random.IntN(3) == 0 {
					failures++
					return errFull
				}
				return nil
			}}
			history := []int{0, 4 << 8}[seed%2]
			s := memory.New(memory.Options{Journal: j, History: history})
			defer s.Close()
			var group sync.WaitGroup
			var mu sync.Mutex
			acknowledged := map[uint64]string{}
			for n := range uint64(8) {
				group.Go(func() {
					random := rand.New(rand.NewPCG(seed, n+3))
					for i := range 200 {
						key := fmt.Sprintf("k%d", random.IntN(6))
						r, err := write(t.Context(), s, random, key, fmt.Sprintf("%d/%d", n, i))
						if err == nil {
							mu.Lock()
							acknowledged[r.Revision] = r.Key
							mu.Unlock()
						}
						latest, oldest, _ := s.Revisions(t.Context())
						for _, revision := range []uint64{0, latest, max(oldest+3, latest) - 3} {
							_, err := s.Range(t.Context(), storage.Query{Path: key, Revision: revision})
							if err != nil && !errors.Is(err, storage.ErrCompacted) {
								t.Errorf("Range at revision %d: %v", revision, err)
							}
						}
					}
				})
			}
			group.Wait()
			if failures == 0 || batches == failures {
				t.Fatalf("%d batches, %d failed", batches, failures)
			}
			durable := map[uint64]string{}
			for _, e := range j.events {
				durable[e.Record.Revision] = e.Record.Key
			}
			if diff := cmp.Diff(durable, acknowledged); diff != "" {
				t.Errorf("acknowledged (+) is not what is durable (-):\n%s", diff)
			}
			again := j.load(t)
			defer again.Close()
			if diff := cmp.Diff(state(t, again), state(t, s)); diff != "" {
				t.Errorf("the store (+) is not what the journal has (-):\n%s", diff)
			}
		})
	}
	if together == 0 {
		t.Error("no writes became durable together")
	}
}

// write makes a random write of a key.
func write(ctx context.Context, s storage.Store, random *rand.Rand, key, value string) (*storage.Record, error) {
	present, err := s.Get(ctx, key)
	revision := storage.Absent
	if err == nil {
		revision = present.Revision
	}
	switch random.IntN(4) {
	case 0:
		return s.Delete(ctx, key, storage.Any)
	case 1:
		return s.Put(ctx, storage.Write{Key: key, Value: []byte(value), If: storage.Any,
			Expires: time.Now().Add(time.Hour)})
	default:
		return s.Put(ctx, storage.Write{Key: key, Value: []byte(value), If: revision})
	}
}

// TestPendingWrites checks that nobody sees a write before the journal has it, and that errors which rest on
// such a write wait for it.
func TestPendingWrites(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails=%v", fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testPendingWrites(t, fails) })
		})
	}
}

func testPendingWrites(t *testing.T, fails bool) {
	release := make(chan error)
	j := &journal{}
	s := memory.New(memory.Options{Journal: j})
	defer s.Close()
	ctx := t.Context()
	for _, key := range []string{"a/changed", "a/deleted", "b/other"} {
		put(t, s, storage.Write{Key: key, Value: []byte("before")})
	}
	before := state(t, s)
	w, err := s.Watch(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	first := true
	j.before = func([]*storage.Event) error {
		if first {
			first = false
			return <-release
		}
		return nil
	}
	writes := make(chan error, 3)
	go func() {
		_, err := s.Put(ctx, storage.Write{Key: "a/changed", Value: []byte("after"), If: storage.Any})
		writes <- err
	}()
	synctest.Wait() // the journal has the first write and keeps it; the others are in the next batch
	go func() { _, err := s.Delete(ctx, "a/deleted", storage.Any); writes <- err }()
	go func() { _, err := s.Put(ctx, storage.Write{Key: "a/new"}); writes <- err }()
	synctest.Wait()

	if diff := cmp.Diff(before, state(t, s)); diff != "" {
		t.Errorf("a reader sees writes that are not durable:\n%s", diff)
	}
	if r, err := s.Get(ctx, "a/changed"); err != nil || string(r.Value()) != "before" {
		t.Errorf("Get returns %v, %v", r, err)
	}
	if page, err := s.Range(ctx, storage.Query{Path: "b/", Limit: 1}); err != nil || len(page.Records) != 1 || page.Revision != 4 {
		t.Errorf("Range returns %v, %v", page, err)
	}
	if events, revision, _ := w.Next(); len(events) > 0 || revision != 4 {
		t.Errorf("a watcher gets %d events up to revision %d", len(events), revision)
	}
	if _, err := s.Range(ctx, storage.Query{Revision: 5}); !errors.Is(err, storage.ErrFuture) {
		t.Errorf("Range at a revision that is not durable: %v", err)
	}

	conflict := make(chan *storage.Record, 1)
	go func() {
		r, err := s.Put(ctx, storage.Write{Key: "a/changed", Value: []byte("conflict"), If: 2})
		if fails == errors.Is(err, storage.ErrConflict) {
			t.Errorf("a write on top of one that is not durable: %v", err)
		}
		conflict <- r
	}()
	synctest.Wait()
	select {
	case <-conflict:
		t.Error("a conflict with a write that is not durable is returned at once")
	default:
	}

	var want error
	if fails {
		want = errFull
	}
	release <- want
	for range 3 {
		if err := <-writes; !errors.Is(err, want) {
			t.Errorf("a write returns %v, want %v", err, want)
		}
	}
	<-conflict
	again := j.load(t)
	defer again.Close()
	if diff := cmp.Diff(state(t, again), state(t, s)); diff != "" {
		t.Errorf("the store (+) is not what the journal has (-):\n%s", diff)
	}
}

// TestExpiryWithFailingJournal checks in virtual time that records expire although the journal refuses
// their deletion at first, and that the store does not try all the time.
func TestExpiryWithFailingJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		s := memory.New(memory.Options{Journal: j})
		defer s.Close()
		put(t, s, storage.Write{Key: "k", Expires: time.Now().Add(time.Minute)})
		start, calls := time.Now(), 0
		j.before = func([]*storage.Event) error {
			if calls++; time.Since(start) < 2*time.Minute {
				return errFull
			}
			return nil
		}
		w, err := s.Watch(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		<-w.Ready()
		if d := time.Since(start); d > 2*time.Minute+2*time.Second || calls > 130 {
			t.Errorf("the record was deleted after %v and %d calls", d, calls)
		}
	})
}
