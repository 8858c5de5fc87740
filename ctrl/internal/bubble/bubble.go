// Package bubble tells what cannot run in a bubble of testing/synctest: a goroutine that waits for a
// socket or a file keeps the bubble from becoming idle, so that time stands still in it.
package bubble

import (
	"bytes"
	"fmt"
	"runtime"
)

// Check returns an error in a bubble: what opens sockets or files there, and the option that prevents
// it. Outside of bubbles it returns nil.
func Check(what, option string) error {
	if !contains() {
		return nil
	}
	return fmt.Errorf("%s in a testing/synctest bubble, in which nothing may wait for a socket or a file: %s", what, option)
}

// contains reports whether the caller runs in a bubble, which the header of its stack says.
func contains() bool {
	stack := make([]byte, 256)
	header, _, _ := bytes.Cut(stack[:runtime.Stack(stack, false)], []byte("\n"))
	return bytes.Contains(header, []byte("synctest bubble"))
}
