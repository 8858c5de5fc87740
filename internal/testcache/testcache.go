// Package testcache tells the go command what the result of a test depends on.
//
// The go command runs a test again when the test's code has changed, or a file that the test itself has opened. It does
// not see the files that other programs read for the test, such as the go command.
package testcache

import "os"

// Variable names the environment variable that names the state of all files of this module. .ci/run sets it.
const Variable = "FLYBALL_TREE"

// DependsOnTree makes the result of the calling test, and so of its package, depend on all files of this module. Call it
// in a test for which a program reads them.
func DependsOnTree() {
	os.Getenv(Variable) // the go command records it
}
