package storagetest

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"flyball.dev/storage"
)

// Jumped returns t as it would be if the wall clock had been ahead by d, in whole seconds, when t was made. The monotonic
// reading is the same.
func Jumped(t time.Time, d time.Duration) time.Time {
	d = d.Truncate(time.Second)
	jumped := t
	// With a monotonic reading, a time begins with a bit, 33 bits of seconds and 30 bits of nanoseconds.
	*(*uint64)(unsafe.Pointer(&jumped)) += uint64(d/time.Second) << 30
	if jumped.Sub(t) != 0 || jumped.Round(0).Sub(t.Round(0)) != d {
		panic("the layout of a time has changed, or it has no monotonic reading")
	}
	return jumped
}

// maxStall is how long a record may stay after its time.
const maxStall = 5 * time.Minute

// testClockJump writes records as if the wall clock had been ahead or behind, so that it has been set back or forward
// since. The records expire after their time to live.
func testClockJump(t *testing.T, s storage.Store) {
	w := watch(t, s, "", 0)
	defer w.Close()
	start := time.Now()
	soon := start.Add(100 * time.Millisecond)
	for _, r := range []struct {
		key  string
		ttl  time.Duration
		jump time.Duration
	}{
		{"behind, late", time.Hour, -24 * time.Hour},
		{"behind, soon", soon.Sub(start), -24 * time.Hour},
		{"right, late", time.Hour, 0},
		{"right, soon", soon.Sub(start), 0},
		{"ahead, late", time.Hour, 24 * time.Hour},
		{"ahead, soon", soon.Sub(start), 24 * time.Hour},
	} {
		if _, err := s.Put(ctx, storage.Write{Key: r.key, Expires: Jumped(start.Add(r.ttl), r.jump)}); err != nil {
			t.Fatal(err)
		}
	}
	stalled := time.After(maxStall)
	for deleted := 0; deleted < 3; {
		events, _, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Type == storage.Deleted {
				deleted++
				if time.Now().Before(soon) {
					t.Errorf("%s was deleted after %v", e.Record.Key, time.Since(start))
				}
			}
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.Ready():
		case <-stalled:
			t.Fatalf("%d of 3 records have expired after %v", deleted, time.Since(start))
		}
	}
	page, err := s.Range(ctx, storage.Query{})
	if got := keys(page.Records); err != nil || !slices.Equal(got, []string{"ahead, late", "behind, late", "right, late"}) {
		t.Errorf("left: %q, %v", got, err)
	}
}
