// Package generate compares what flyball generate and controller-gen generate.
package generate
