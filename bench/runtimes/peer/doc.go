// Package peer is controller-runtime as a runtime to be measured.
package peer

const name = "controller-runtime"
