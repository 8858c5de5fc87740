package controller

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestRecent holds a recent against a map while it need not forget anything but what has expired.
func TestRecent(t *testing.T) {
	type entry struct {
		runs      int
		since, at time.Time
	}
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	r, model := newRecent(now), map[uint64]entry{}
	for range 100_000 {
		now = now.Add(time.Duration(random.IntN(100)) * time.Millisecond) // some 1,200 a minute
		hash := random.Uint64N(5000) * 0x9e3779b97f4a7c15
		if random.IntN(2) == 0 {
			e := entry{random.IntN(100), now.Add(-time.Duration(random.IntN(100)) * time.Second), now}
			r.put(hash, count{runs: e.runs}, e.since, now)
			model[hash] = e
		}
		s, want := r.find(hash, now), model[hash]
		if left := hotLoopWindow - now.Sub(want.at); left.Abs() < 2*slotTick {
			continue
		} else if (s != nil) != (left > 0) {
			t.Fatalf("an entry is there: %v, %v before it expires", s != nil, left)
		}
		if s != nil && (int(s.runs) != want.runs || !r.epoch.Add(s.since).Equal(want.since)) {
			t.Fatalf("got %v, want %v", *s, want)
		}
	}
	if n := len(r.slots); n > 8192 {
		t.Errorf("it has grown to %d slots", n)
	}
}

// TestRecentWhenFull puts a few entries that come back among very many that do not, from when it is
// full. Of these every third has come back once.
func TestRecentWhenFull(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	r := newRecent(now)
	const few = 100
	runs := [few]int{}
	for i := range 1_200_000 {
		now = now.Add(100 * time.Microsecond)
		r.put(random.Uint64(), count{runs: i % 3 / 2}, now, now)
		if i < 200_000 {
			continue
		}
		if i%7000 != 0 {
			continue
		}
		for hash := range uint64(few) {
			n := 0
			if s := r.find(hash, now); s != nil {
				n = int(s.runs) + 1
			}
			runs[hash] = n
			r.put(hash, count{runs: n}, now, now)
		}
	}
	for hash, n := range runs {
		if n < 100 {
			t.Errorf("entry %d has come back 143 times, of which only the last %d are known", hash, n)
		}
	}
	if n := len(r.slots); n != maxSlots {
		t.Errorf("it has %d slots, want %d", n, maxSlots)
	}
}

// TestRecentOfSlowReconciles puts entries of reconciles that began before the reconciles of the
// entries that are there already.
func TestRecentOfSlowReconciles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	r := newRecent(now)
	hashes := make([]uint64, 1000)
	for i := range hashes {
		hashes[i] = random.Uint64()
		r.put(hashes[i], count{runs: i}, now, now.Add(-time.Duration(i)*20*time.Millisecond))
	}
	for i, hash := range hashes {
		if s := r.find(hash, now); s == nil || int(s.runs) != i {
			t.Errorf("entry %d is lost: %v", i, s)
		}
	}
	if s := r.find(hashes[0], now.Add(-time.Second)); s == nil {
		t.Error("an entry has expired before it was made")
	}
}
