// Package copy has the operator of the guide in docs/lab.md, before and after the mends, and tests that the guide is right.
package copy
