// Package conversion implements the conversion webhook: the HTTP handler that the API server calls
// to convert custom resources between the versions of their CustomResourceDefinition.
//
// The types of a kind are either converted by methods of their own, the methods of
// flyball.dev/ctrl/conversion, or by a [Converter] that is registered for the kind.
// [NewHubSpokeConverter] makes one of functions.
package conversion
