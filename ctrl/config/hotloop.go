package config

import (
	"fmt"
	"time"

	"flyball.dev/ctrl/internal/cause"
)

// HotLoop is a request that comes back again and again only because of what its own reconciles
// wrote: each time the reconciler writes, the event of the write asks for it once more. The usual
// reason is a field that is never what it was written as, such as a time, or a list in random order.
//
// A request is one after 20 reconciles in a row that each wrote something and were caused by nothing
// but writes of the ones before, within a minute. It is reported once in ten minutes. Only what was
// written through a client of package client, with the context given to the reconciler, is known to
// be its own.
type HotLoop struct {
	// Controller and Request are what goes in circles.
	Controller, Request string

	// Reconciles is how many there were in a row, in the time Within.
	Reconciles int
	Within     time.Duration

	// Causes are those of the last reconcile. In their Changed they tell which fields of the objects
	// change, and who owns them.
	Causes cause.Causes
}

// Error describes the loop, so that a HotLoop can be used as an error.
func (h HotLoop) Error() string {
	return fmt.Sprintf("hot loop: %s reconciled %s %d times in %v for its own writes: %v",
		h.Controller, h.Request, h.Reconciles, h.Within, h.Causes)
}
