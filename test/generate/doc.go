// Package generate compares the output of flyball generate and controller-gen.
package generate
