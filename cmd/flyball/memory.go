package main

import (
	"runtime/debug"
	"runtime/metrics"
	"time"

	"flyball.dev/cmd/flyball/internal/pages"
)

const (
	// startTime is the time after which the start is complete. The start takes a quarter of a second of CPU time.
	startTime = 5 * time.Second

	// startInterval is the time between releases of pages during the start. It is longer if the kernel maps single pages,
	// because they are fewer, and cost more to map again.
	startInterval, startIntervalSingly = 2 * time.Millisecond, 50 * time.Millisecond

	// startGCPercent is GOGC during the start. Most of the memory that the start allocates soon becomes garbage.
	startGCPercent = 40

	// idleInterval is the time between memory checks after the start. An interval is quiet if less than quietBytes were
	// allocated in it. Pages are released after each quiet interval, because even the renewal of a lease can map half
	// of the program file again, if the page cache uses large folios.
	idleInterval = time.Second
	quietBytes   = 2 << 20

	// After a quiet interval, memory is returned if returnBytes have been allocated since the last time, or if
	// freeBytes are free. The Go runtime itself collects garbage only when the heap has doubled or after two minutes,
	// and keeps a part of the free memory.
	returnBytes, freeBytes = 16 << 20, 8 << 20

	// The heap of a large control plane grows by less than GOGC's default of 100 percent before garbage is collected, but by
	// at least growthBytes or growthPercent. With the default, half of the memory would be garbage while objects are written
	// or listed.
	growthBytes, growthPercent = 16 << 20, 35

	// compressAfter is how long an object must be unused before it is compressed.
	compressAfter = 10 * time.Second
)

// releaseMemory returns memory to the operating system that only the start needed: garbage, and pages of the program
// file with code that runs at most once.
func releaseMemory() {
	debug.FreeOSMemory()
	pages.Release()
}

// saveMemory keeps the memory of the process small, both during the start and in quiet times afterwards, until stop is
// called. It returns immediately.
func saveMemory() (stop func()) {
	percent := debug.SetGCPercent(startGCPercent)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		interval := startInterval
		if pages.Singly() {
			interval = startIntervalSingly
		}
		release, started := time.NewTicker(interval), time.After(startTime)
		defer release.Stop()
		var returns returns
		var growth growth
		running := false
		for {
			select {
			case <-done:
				return
			case <-release.C:
				if !running {
					pages.Release()
					continue
				}
				use := heapUse()
				growth.set(use.live)
				quiet, due := returns.look(use)
				if due {
					debug.FreeOSMemory()
					returns.done(heapUse())
				}
				if quiet {
					pages.Release()
				}
			case <-started:
				running = true
				release.Reset(idleInterval)
				debug.SetGCPercent(percent)
				growth = newGrowth(percent)
				releaseMemory()
				returns.done(heapUse())
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}

// growth sets GOGC, unless the user has.
type growth struct{ current int } // zero if the user has

func newGrowth(percent int) growth {
	if percent != defaultGCPercent {
		return growth{}
	}
	return growth{percent}
}

// defaultGCPercent is GOGC if the user does not set it.
const defaultGCPercent = 100

// set sets GOGC for the live heap that the last collection has found.
func (g *growth) set(live uint64) {
	if wanted := gcPercent(live); g.current != 0 && g.current != wanted {
		debug.SetGCPercent(wanted)
		g.current = wanted
	}
}

// gcPercent returns GOGC for a live heap, in steps, because setting it stops all goroutines for a moment.
func gcPercent(live uint64) int {
	const step = 5
	percent := defaultGCPercent
	if live > growthBytes {
		percent = max(growthPercent, int(defaultGCPercent*growthBytes/live))
	}
	return percent / step * step
}

// heap is the use of the heap in bytes: the bytes allocated since the start of the process, the bytes that are free
// but not returned to the operating system, and the bytes that the last collection of garbage has left.
type heap struct{ allocated, free, live uint64 }

// heapUse returns the current use of the heap.
func heapUse() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()}
}

// returns decides when memory is returned.
type returns struct {
	seen     uint64 // had been allocated an interval ago
	returned uint64 // had been allocated when memory was returned
}

// look reports whether the interval since the last call was quiet, and whether memory must be returned.
func (r *returns) look(h heap) (quiet, due bool) {
	quiet = h.allocated-r.seen < quietBytes
	r.seen = h.allocated
	return quiet, quiet && (h.allocated-r.returned >= returnBytes || h.free >= freeBytes)
}

// done records that memory has been returned.
func (r *returns) done(h heap) { r.seen, r.returned = h.allocated, h.allocated }
