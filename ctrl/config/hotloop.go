package config

import (
	"fmt"
	"time"

	"flyball.dev/ctrl/internal/cause"
)

// HotLoop is a request that is reconciled endlessly because of the writes of its own reconciles:
// the event of each write adds the request again. The usual reason is a field that every reconcile
// writes differently, such as a time, or a list in random order.
//
// A request is a hot loop after 20 consecutive reconciles within a minute if each of them wrote
// something, was caused only by writes of the reconciles before, and got nowhere: it wrote no object
// that they had not written before, and no object was created or deleted for the first time. After 200,
// it is one even if it got somewhere. It is reported once in ten minutes. Only
// writes through a client of package client, with the context that was passed to the reconciler,
// are attributed to it.
type HotLoop struct {
	// Controller and Request identify the loop.
	Controller, Request string

	// Reconciles is the number of consecutive reconciles in the time Within.
	Reconciles int
	Within     time.Duration

	// Causes are the causes of the last reconcile. Their field Changed has the fields that change and
	// the field managers that own them.
	Causes cause.Causes
}

// Error describes the loop, so that a HotLoop can be used as an error.
func (h HotLoop) Error() string {
	return fmt.Sprintf("hot loop: %s reconciled %s %d times in %v for its own writes: %v",
		h.Controller, h.Request, h.Reconciles, h.Within, h.Causes)
}
