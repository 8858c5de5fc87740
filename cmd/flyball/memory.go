package main

import (
	"runtime/debug"
	"runtime/metrics"
	"time"

	"flyball.dev/cmd/flyball/internal/pages"
)

const (
	// startTime is after which time nothing is left to do of the start, which takes a quarter of a second
	// of CPU time.
	startTime = 5 * time.Second

	// startInterval is the time between releases of pages during the start.
	startInterval = 2 * time.Millisecond

	// startGCPercent is GOGC during the start, most of whose memory is soon garbage.
	startGCPercent = 40

	// idleInterval is the time between looks at the memory afterwards. An interval is quiet if less than
	// quietBytes were allocated in it. Pages are released after each quiet one: renewing a lease, for one,
	// maps half of the file again where the page cache has it in large folios.
	idleInterval = time.Second
	quietBytes   = 2 << 20

	// Memory is returned after a quiet interval if there may be much to return: returnBytes have been
	// allocated since the last time, or freeBytes are free. Go itself collects garbage only when as much has
	// been allocated as was in use after the last collection, or two minutes later, and keeps a part of what
	// is free.
	returnBytes, freeBytes = 16 << 20, 8 << 20

	// compressAfter is when objects that nobody uses are compressed.
	compressAfter = 10 * time.Second
)

// releaseMemory returns to the operating system what only the start has needed: garbage, and pages
// of the program file, most of which is code that only runs once or not at all.
func releaseMemory() {
	debug.FreeOSMemory()
	pages.Release()
}

// saveMemory keeps the memory of the process small, at the peak of the start and whenever little happens
// afterwards, until stop is called. It returns at once.
func saveMemory() (stop func()) {
	percent := debug.SetGCPercent(startGCPercent)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		release, started := time.NewTicker(startInterval), time.After(startTime)
		defer release.Stop()
		var returns returns
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
				quiet, due := returns.look(heapUse())
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

// heap is the use of the heap in bytes: what has been allocated since the start of the process, and
// what is free but not returned to the operating system.
type heap struct{ allocated, free uint64 }

// heapUse returns the present use of the heap.
func heapUse() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// returns decides when memory is returned.
type returns struct {
	seen     uint64 // had been allocated an interval ago
	returned uint64 // had been allocated when memory was returned
}

// look reports whether the interval since the last call was quiet, and whether memory is to be returned.
func (r *returns) look(h heap) (quiet, due bool) {
	quiet = h.allocated-r.seen < quietBytes
	r.seen = h.allocated
	return quiet, quiet && (h.allocated-r.returned >= returnBytes || h.free >= freeBytes)
}

// done is called when memory has been returned.
func (r *returns) done(h heap) { r.seen, r.returned = h.allocated, h.allocated }
