// Package compat runs an operator twice on the control plane: built with controller-runtime, and with the module compat
// in its place. Both must print the content of testdata/outcome.txt.
//
// go.mod belongs to the operator with controller-runtime, and flyball.mod to the same operator with Flyball. The two
// files differ in two replace directives.
package compat
