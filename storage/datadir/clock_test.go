package datadir

import (
	"testing"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/storagetest"
)

// TestClockSet sets the wall clock forward and back while the store writes, and opens the directory again: from the log, from
// a snapshot, and from both. No record expires earlier or later by that.
func TestClockSet(t *testing.T) {
	for name, o := range map[string]Options{
		"log":       {},
		"log files": {LogFile: 1},
		"snapshots": {SnapshotAfter: 1},
		"both":      {LogFile: 1 << 10, SnapshotAfter: 2 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ahead := time.Duration(0) // of the wall clock
			o.now = func() time.Time { return storagetest.Jumped(time.Now(), ahead) }
			start, keys := time.Now(), []string{"/a", "/b", "/c", "/d"}
			for range 3 {
				for i, jump := range []time.Duration{-20 * time.Hour, 0, 30 * time.Hour, 0} {
					ahead = jump
					s := openDir(t, dir, o)
					// The clock shows another time when a process starts, so the records of the process before are written again.
					for _, key := range keys {
						put(t, s, storage.Write{Key: key, Value: make([]byte, 100), If: storage.Any, Expires: o.now().Add(time.Hour)})
					}
					for step, then := range []time.Duration{10 * time.Hour, -10 * time.Hour, 0} {
						ahead = then
						put(t, s, storage.Write{Key: keys[step], Value: make([]byte, 300), If: storage.Any, Expires: o.now().Add(time.Hour)})
						if i == step {
							s.background.Wait()
						}
					}
					s.background.Wait()
					closeStore(t, s) // with a right clock
					s = openDir(t, dir, Options{})
					page, err := s.Range(ctx, storage.Query{})
					if err != nil || len(page.Records) != len(keys) {
						t.Fatalf("%d records of %d, %v", len(page.Records), len(keys), err)
					}
					for _, r := range page.Records {
						if d := r.Expires.Sub(start.Add(time.Hour)).Abs(); d > time.Minute {
							t.Errorf("%s expires at %v, want about %v", r.Key, r.Expires, start.Add(time.Hour))
						}
					}
					closeStore(t, s)
				}
			}
		})
	}
}
