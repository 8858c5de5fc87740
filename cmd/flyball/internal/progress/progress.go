// Package progress prints what a command is doing while it takes long.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"flyball.dev/cmd/flyball/internal/terminal"
)

// On an ordinary writer, the first line comes after first, and further lines after each next. On a terminal there is
// one line, which changes every second.
const (
	first  = time.Second
	next   = 10 * time.Second
	redraw = time.Second
)

// Start prints the result of doing and the elapsed time, from a second after the start until stop is called. stop
// erases the line on a terminal, and waits for the goroutine that prints and calls doing.
func Start(out io.Writer, doing func() string) (stop func()) {
	return start(out, terminal.Is(out), doing)
}

// start is Start; isTerminal says whether out is a terminal.
func start(out io.Writer, isTerminal bool, doing func() string) (stop func()) {
	format, interval := "%s: %d s\n", next
	if isTerminal {
		format, interval = "\r\x1b[K%s: %d s", redraw
	}
	begin := time.Now()
	timer := time.NewTimer(first)
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer timer.Stop()
		written := false
		for {
			select {
			case <-timer.C:
				fmt.Fprintf(out, format, doing(), int(time.Since(begin).Seconds()))
				written = true
				timer.Reset(interval)
			case <-ended:
				if written && isTerminal {
					fmt.Fprint(out, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(ended); <-done })
}

// Doing returns a function for [Start] that always returns the same text.
func Doing(what string) func() string { return func() string { return what } }
