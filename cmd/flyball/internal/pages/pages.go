// Package pages keeps the memory small that a program file takes. Much of flyball is code and data that
// only its start runs through, or nothing at all.
//
// The package is initialized before most of what flyball links, since it imports little and Go initializes
// packages that can be in the order of their paths.
package pages

// Initializing packages runs through most of the file.
func init() { mapSmall() }
