// Package recorder says what can be asked for event recorders.
//
// An event is a note for people about an object, which the server keeps for a
// while. Recording one never blocks and never fails: what cannot be delivered is
// dropped and logged.
package recorder

import (
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// EventRecorder records events of the events.k8s.io API.
type EventRecorder interface {
	events.EventRecorder
	events.AnnotatedEventRecorder
}

// Provider hands out event recorders. It is safe for concurrent use, and so are
// the recorders.
type Provider interface {
	// GetEventRecorderFor returns a recorder for events of the core API, whose
	// source is name.
	//
	// Deprecated: Use GetEventRecorder.
	GetEventRecorderFor(name string) record.EventRecorder

	// GetEventRecorder returns a recorder for events of the events.k8s.io API.
	// The name is their reporting controller and must be a qualified name; their
	// reporting instance is the name, "-" and the host's name, at most 128
	// characters together.
	GetEventRecorder(name string) EventRecorder
}
