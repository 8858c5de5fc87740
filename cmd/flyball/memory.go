package main

import (
	"runtime/debug"
	"time"
)

const (
	// compressAfter is how long an object must be unused before it is compressed.
	compressAfter = 10 * time.Second

	// startTime is how long the start goes on when the server is ready: the controllers still fill their caches.
	startTime = 5 * time.Second
)

// freeAfterStart returns the garbage of the start to the operating system, once and in the background, when the start is
// over. Without it, a third of the memory of an idle control plane would be garbage: nothing makes the heap grow until the
// Go runtime collects.
func freeAfterStart() { time.AfterFunc(startTime, debug.FreeOSMemory) }
