package v1

import "flyball.dev/ctrl/conversion"

// Annotations that keep what another version has no field or value for, so that a round trip
// through that version loses nothing. Clients that update or patch an object in an older version keep
// them; one that replaces the object by a manifest without them resets these fields.
const (
	// RetriesAnnotation of a Proxy in an older version has its retries, as JSON. Only v1 has the field.
	RetriesAnnotation = "net.example.com/v1-retries"
	// BalancingAnnotation of a Proxy in v1 has the balancing of older versions, if v1 has no such value.
	BalancingAnnotation = "net.example.com/v1beta1-balancing"
)

var _ conversion.Hub = &Proxy{}

// Hub marks this version as the hub: the others convert to it and from it.
func (*Proxy) Hub() {}
