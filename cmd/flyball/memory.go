package main

import (
	"runtime/debug"
	"time"
)

// startTime is after which time nothing is left to do of the start, which takes a quarter of a second
// of CPU time.
const startTime = 5 * time.Second

// releaseMemory returns to the operating system what only the start has needed: garbage, and pages
// of the program file, most of which is code that only runs once or not at all.
func releaseMemory() {
	debug.FreeOSMemory()
	releasePages()
}
