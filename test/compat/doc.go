// Package compat runs an operator twice on the control plane: built with controller-runtime as it
// is, and with the module compat in its place. Both must print what testdata/outcome.txt has.
//
// go.mod is that of the operator with controller-runtime, and flyball.mod that of the same operator
// with Flyball: two lines that replace a module are all the difference.
package compat
