// Package conversion says what the Go types of a kind that exists in several
// versions implement, so that objects can be converted between them.
//
// One version is the hub; all others, the spokes, convert to it and from it. A
// conversion between two spokes goes through the hub.
package conversion

import "k8s.io/apimachinery/pkg/runtime"

// Hub marks the version that all others convert to and from.
type Hub interface {
	runtime.Object
	Hub()
}

// Convertible is a spoke: a version that converts to the hub and from it.
// Conversion there and back must lose nothing.
type Convertible interface {
	runtime.Object
	// ConvertTo writes the receiver into dst, the hub.
	ConvertTo(dst Hub) error
	// ConvertFrom overwrites the receiver with src, the hub.
	ConvertFrom(src Hub) error
}
