// Package pages bounds the memory for the pages of the program file. Only the start needs most of the
// code and data of flyball. An idle control plane holds 34 MiB with this package, and 123 MiB without it.
//
// The package is initialized before most of what flyball links, since it imports little and Go initializes
// packages that can be in the order of their paths.
package pages

// Initializing packages runs through most of the file.
func init() { mapSmall() }
