// Package signals turns the signals that ask a program to end into a context.
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
// ends the program at once, with exit code 1. It may be called once in a program and panics when it
// is called again.
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
