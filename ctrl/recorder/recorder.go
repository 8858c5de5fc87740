// Package recorder has the interface of providers of event recorders.
//
// Recording an event never blocks and never fails: an event that cannot be written is dropped and
// logged.
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

// Provider provides event recorders. It is safe for concurrent use, and so are the recorders.
type Provider interface {
	// GetEventRecorderFor returns a recorder for events of the core API. The
	// source of the events is name.
	//
	// Deprecated: Use GetEventRecorder.
	GetEventRecorderFor(name string) record.EventRecorder

	// GetEventRecorder returns a recorder for events of the events.k8s.io API.
	// The name is the reporting controller and must be a qualified name; the reporting instance is
	// the name, "-" and the host's name, truncated to 128 characters. Events of an object that differ
	// only in their notes and annotations are a series, as in client-go: the first one is written, and
	// how many followed it.
	GetEventRecorder(name string) EventRecorder
}
