package main

import (
	"runtime/debug"
	"time"
)

// startTime is how long the start goes on when the server is ready: the controllers still fill their caches.
const startTime = 5 * time.Second

// freeAfterStart returns the garbage of the start to the operating system, once and in the background, when the start is over. It is
// a quarter of the memory of an idle control plane. The Go runtime collects it after two minutes, and returns little of it.
func freeAfterStart() { time.AfterFunc(startTime, debug.FreeOSMemory) }
