package apiserver

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestChanges compares changes with a model at random: there is a change if a record below the path was written since the
// last call, and after the first call, a reset or a compaction there may be one.
func TestChanges(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := memory.New(memory.Options{History: 4 << 10})
		defer s.Close()
		if err := s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		paths := []string{"/a/", "/a/x/", "/b/"}
		all := make([]*changes, len(paths))
		changed, lost := make([]bool, len(paths)), make([]bool, len(paths))
		for i, path := range paths {
			all[i], changed[i] = &changes{storage: s, path: path}, true
		}
		for step := range 400 {
			switch n := random.IntN(20); {
			case n == 0:
				if err := s.Reset(); err != nil {
					t.Fatal(err)
				}
				for i := range paths {
					changed[i] = true
				}
			case n == 1: // a burst that a watcher does not read at once, and that the history may not keep
				for range 200 {
					writeAnywhere(t, s, random, paths, changed)
				}
				for i := range paths {
					lost[i] = true
				}
			case n < 9:
				writeAnywhere(t, s, random, paths, changed)
			default:
				i := random.IntN(len(paths))
				switch got := all[i].any(); {
				case changed[i] && !got:
					t.Fatalf("seed %d, step %d: no change of %s after a write", seed, step, paths[i])
				case got && !changed[i] && !lost[i]:
					t.Fatalf("seed %d, step %d: a change of %s without a write", seed, step, paths[i])
				}
				for all[i].any() { // the rest of a burst
				}
				changed[i], lost[i] = false, false
			}
		}
	}
}

// writeAnywhere writes a record, and marks the paths above it as changed.
func writeAnywhere(t *testing.T, s storage.Store, random *rand.Rand, paths []string, changed []bool) {
	t.Helper()
	key := fmt.Sprint([]string{"/a/", "/a/x/", "/b/", "/c/"}[random.IntN(4)], random.IntN(4))
	if _, err := s.Put(t.Context(), storage.Write{Key: key, If: storage.Any, Value: make([]byte, 100)}); err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		changed[i] = changed[i] || storage.Covers(path, key)
	}
}

// TestChangesAtOnce expects that a writer sees its own write as a change, whatever other goroutines write and ask.
func TestChangesAtOnce(t *testing.T) {
	s := memory.New(memory.Options{})
	defer s.Close()
	var work sync.WaitGroup
	for n := range 4 {
		work.Go(func() {
			path := fmt.Sprintf("/%d/", n)
			own := &changes{storage: s, path: path}
			for i := range 500 {
				for own.any() {
				}
				if _, err := s.Put(t.Context(), storage.Write{Key: fmt.Sprint(path, i), If: storage.Absent}); err != nil {
					t.Error(err)
				}
				if !own.any() {
					t.Errorf("write %d is no change", i)
				}
			}
		})
	}
	work.Wait()
}
