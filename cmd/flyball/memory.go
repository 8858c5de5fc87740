package main

import (
	"runtime/debug"
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

	// idleInterval is the time between releases of pages afterwards. Putting records to rest, for one,
	// maps half of the file again.
	idleInterval = 20 * time.Second
)

// releaseMemory returns to the operating system what only the start has needed: garbage, and pages
// of the program file, most of which is code that only runs once or not at all.
func releaseMemory() {
	debug.FreeOSMemory()
	pages.Release()
}

// saveMemory keeps the memory of the process small, at the peak of the start and afterwards, until stop
// is called. It returns at once.
func saveMemory() (stop func()) {
	percent := debug.SetGCPercent(startGCPercent)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		release, started := time.NewTicker(startInterval), time.After(startTime)
		defer release.Stop()
		for {
			select {
			case <-done:
				return
			case <-release.C:
				pages.Release()
			case <-started:
				release.Reset(idleInterval)
				debug.SetGCPercent(percent)
				releaseMemory()
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}
