package memory_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// leasesOf describes the leases of a store and their keys.
func leasesOf(t testing.TB, s storage.Lessor) map[int64][]string {
	t.Helper()
	all, err := s.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[int64][]string{}
	for _, l := range all {
		if _, found[l.ID], err = s.Lease(t.Context(), l.ID); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// attached returns the keys of all leases, as the records have them.
func attached(t testing.TB, s *memory.Store) map[int64][]string {
	t.Helper()
	found := map[int64][]string{}
	for id := range leasesOf(t, s) {
		found[id] = nil
	}
	page, err := s.Range(t.Context(), storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		if r.Lease != 0 {
			found[r.Lease] = append(found[r.Lease], r.Key)
		}
	}
	return found
}

// TestLeasesWithFailingJournal grants and revokes leases, and attaches records to them, with a journal that fails often.
// The leases of the store, of its records and of the journal must agree.
func TestLeasesWithFailingJournal(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 5))
		j := &journal{before: func([]*storage.Event) error { // called by one goroutine at a time
			if random.IntN(3) == 0 {
				return errFull
			}
			return nil
		}}
		s := memory.New(memory.Options{Journal: j})
		var group sync.WaitGroup
		for n := range uint64(6) {
			group.Go(func() {
				random := rand.New(rand.NewPCG(seed, n+3))
				for range 200 {
					id := int64(random.IntN(4) + 1)
					var err error
					switch random.IntN(4) {
					case 0:
						_, err = s.Grant(t.Context(), id, time.Hour)
					case 1:
						_, err = s.Revoke(t.Context(), id)
					default:
						_, err = s.Put(t.Context(), storage.Write{Key: fmt.Sprint("k", random.IntN(6)), Lease: id * int64(random.IntN(2)), If: storage.Any})
					}
					if err != nil && !errors.Is(err, errFull) && !errors.Is(err, storage.ErrNoLease) && !errors.Is(err, storage.ErrLeaseExists) {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		got, want := leasesOf(t, s), attached(t, s)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("seed %d: the leases have %v, the records %v", seed, got, want)
		}
		loaded := j.load(t)
		if again := leasesOf(t, loaded); !reflect.DeepEqual(again, want) {
			t.Errorf("seed %d: the journal has %v, the store %v", seed, again, want)
		}
		if a, b := state(t, s), state(t, loaded); !slices.Equal(a, b) {
			t.Errorf("seed %d: the journal has %q, the store %q", seed, b, a)
		}
		loaded.Close()
		s.Close()
	}
}

// TestLeaseTime renews a lease in virtual time, and lets it expire when the journal accepts that.
func TestLeaseTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		j := &journal{before: func(events []*storage.Event) error {
			if len(events) > 0 && events[0].Type == storage.Deleted && full.Load() {
				return errFull
			}
			return nil
		}}
		s := memory.New(memory.Options{Journal: j})
		defer s.Close()
		if _, err := s.Grant(t.Context(), 1, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), storage.Write{Key: "a", Lease: 1}); err != nil {
			t.Fatal(err)
		}
		has := func(want bool) {
			t.Helper()
			synctest.Wait()
			if _, err := s.Get(t.Context(), "a"); errors.Is(err, storage.ErrNotFound) == want {
				t.Errorf("Get: %v", err)
			}
		}
		for range 5 {
			time.Sleep(9 * time.Second)
			if _, err := s.Renew(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		has(true)
		time.Sleep(10 * time.Second)
		has(true) // the disk is full
		full.Store(false)
		time.Sleep(time.Second)
		has(false)
		if got := leasesOf(t, s); len(got) != 0 {
			t.Errorf("the leases are %v", got)
		}
	})
}

// TestResetLeases returns to the leases of the checkpoint.
func TestResetLeases(t *testing.T) {
	s := memory.New(memory.Options{})
	defer s.Close()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	grant := func(id int64) {
		t.Helper()
		_, err := s.Grant(t.Context(), id, time.Hour)
		do(err)
		_, err = s.Put(t.Context(), storage.Write{Key: fmt.Sprint("k", id), Lease: id, If: storage.Any})
		do(err)
	}
	grant(1)
	grant(2)
	do(s.Checkpoint())
	fork, err := s.Fork()
	do(err)
	defer fork.Close()
	for range 2 {
		_, err := s.Revoke(t.Context(), 1)
		do(err)
		grant(3)
		put(t, s, storage.Write{Key: "k2", If: storage.Any})
		do(s.Reset())
		for name, store := range map[string]*memory.Store{"reset": s, "fork": fork} {
			want := map[int64][]string{1: {"k1"}, 2: {"k2"}}
			if got := leasesOf(t, store); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(attached(t, store), want) {
				t.Errorf("%s: the leases are %v, of the records %v", name, got, attached(t, store))
			}
		}
	}
}
