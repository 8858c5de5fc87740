// Package signals has a context that is cancelled by SIGTERM and SIGINT.
package signals

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

var installed atomic.Bool

// SetupSignalHandler returns a context that is cancelled by the first SIGTERM or SIGINT. The second
// exits the program at once, with status 1. It panics if it is called more than once.
func SetupSignalHandler() context.Context {
	if installed.Swap(true) {
		panic("signals: SetupSignalHandler was called twice")
	}
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan os.Signal, 2)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-received
		cancel()
		<-received
		os.Exit(1)
	}()
	return ctx
}
