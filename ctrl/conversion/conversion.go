// Package conversion has the interfaces that the Go types of a kind with several versions
// implement, so that objects can be converted between the versions.
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

// Convertible is a spoke: a version that converts to the hub and from it. A round trip must be
// lossless.
type Convertible interface {
	runtime.Object
	// ConvertTo writes the receiver into dst, the hub.
	ConvertTo(dst Hub) error
	// ConvertFrom overwrites the receiver with src, the hub.
	ConvertFrom(src Hub) error
}
