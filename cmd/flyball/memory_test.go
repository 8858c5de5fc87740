package main

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

// TestReturns: memory is returned once after a burst, when the burst is over, and once more when what was
// in use then becomes free.
func TestReturns(t *testing.T) {
	const mib = 1 << 20
	intervals := []struct {
		allocated, free uint64 // in the interval; at its end
		want            bool
	}{
		{1 * mib, 0, false},
		{500 * mib, 100 * mib, false},
		{500 * mib, 100 * mib, false},
		{1 * mib, 100 * mib, true},
		{1 * mib, 0, false},
		{1 * mib, 0, false},
		{1 * mib, 60 * mib, true}, // the storage has forgotten old writes, and Go has collected garbage
		{1 * mib, 0, false},
	}
	var r returns
	var now heap
	for i, in := range intervals {
		now = heap{allocated: now.allocated + in.allocated, free: in.free}
		if _, got := r.look(now); got != in.want {
			t.Errorf("interval %d: due is %v", i, got)
		} else if got {
			r.done(now)
		}
	}
}

// TestTrickleIsReturned: a process that is never busy collects its garbage too, but seldom.
func TestTrickleIsReturned(t *testing.T) {
	var r returns
	var returned []int
	for i := range 40 {
		now := heap{allocated: uint64(i+1) << 20}
		if _, due := r.look(now); due {
			returned = append(returned, i)
			r.done(now)
		}
	}
	if want := []int{15, 31}; !slices.Equal(returned, want) {
		t.Errorf("memory was returned in the intervals %v, want %v", returned, want)
	}
}

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 100, 10 * mib: 100, 16 * mib: 100, 20 * mib: 80, 32 * mib: 50, 46 * mib: 35, 2048 * mib: 35} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d MiB: %d, want %d", live/mib, got, want)
		}
	}
	user := newGrowth(400)
	user.set(2048 * mib)
	if now := debug.SetGCPercent(-1); now == growthPercent {
		t.Error("GOGC of the user was changed")
	} else {
		debug.SetGCPercent(now)
	}
}

// TestHeapUse: the runtime has all metrics.
func TestHeapUse(t *testing.T) {
	runtime.GC()
	if h := heapUse(); h.allocated == 0 || h.live == 0 {
		t.Errorf("the heap is %+v", h)
	}
}
