// Package testlevel tells the quick runs of the tests from the full ones.
//
// The environment variable FLYBALL_TEST_LEVEL names the level of a run:
//
//	go test ./...                          # quick, the default
//	FLYBALL_TEST_LEVEL=full go test ./...  # full
//
// A test belongs to the quick level if its result depends on the code alone. A test that needs many minutes, a quiet
// machine or something that few machines have belongs to the full level, and calls [NeedsFull] first. A test with
// a short form that proves the same with less certainty runs at both levels, for a number of rounds from [Rounds].
package testlevel

import (
	"fmt"
	"os"
	"testing"
)

// Variable is the name of the environment variable that names the level: "quick" or "full". Without it, the level is
// quick.
const Variable = "FLYBALL_TEST_LEVEL"

// Full reports whether the tests run at the full level. It panics if the environment names a level that does not exist,
// so that a misspelt level does not pass for the quick one.
func Full() bool {
	switch level := os.Getenv(Variable); level {
	case "", "quick":
		return false
	case "full":
		return true
	default:
		panic(fmt.Sprintf(`testlevel: %s is %q, want "quick" or "full"`, Variable, level))
	}
}

// NeedsFull skips a test at the quick level. The reason says what the test needs, like "measures the heap of a quiet
// machine".
func NeedsFull(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skip("full level: " + why)
	}
}

// Rounds returns how often a test repeats what it does: quick at the quick level, and full at the full level.
func Rounds(quick, full int) int {
	if Full() {
		return full
	}
	return quick
}
