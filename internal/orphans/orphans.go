// Package orphans ends the programs that a test has started, and the programs that these have started, when the process of the
// test ends, however that happens. A test imports the package for this effect:
//
//	import _ "flyball.dev/internal/orphans"
//
// The process then sets a mark in its environment, which programs inherit, and starts a guard, a second process of the same
// executable. The guard waits for the end of a pipe from the process, and kills every process with the mark, also one with a
// process group or a session of its own. Programs of a test that another test has started have the mark of the first test, and
// end with it.
//
// A program with a new environment has no mark, unless it gets [Variable]. If it is the test's executable, it is taken for a test,
// and has a guard of its own.
//
// On other systems than Linux the package does nothing.
//
//upstream:none It is for tests.
package orphans

// Variable is the environment variable of the mark. A program with a new environment needs it.
const Variable = "FLYBALL_ORPHANS"
