package surface

import (
	"slices"
	"testing"

	_ "flyball.dev/internal/orphans"
)

func TestSurface(t *testing.T) {
	for _, line := range missingFrom(t, own) {
		t.Errorf("missing or different: %s", line)
	}
}

// The module compat has all names of controller-runtime's import path. A function with an unexported type in its
// signature is a variable there.
func TestCompat(t *testing.T) {
	for _, line := range missingFrom(t, compat) {
		if !slices.Contains(variables, line) {
			t.Errorf("missing or different: %s", line)
		}
	}
}

// variables are the functions that the module compat has as variables.
var variables = []string{
	"webhook/admission: func DefaulterRemoveUnknownOrOmitableFields(*webhook/admission.defaulterOptions)",
}

// missingFrom returns the lines of controller-runtime that a library does not have.
func missingFrom(t *testing.T, l library) []string {
	theirs, err := peer.lines()
	if err != nil {
		t.Fatal(err)
	}
	if len(theirs) < 1500 {
		t.Fatalf("only %d lines of controller-runtime were found", len(theirs))
	}
	lines, err := l.lines()
	if err != nil {
		t.Fatal(err)
	}
	missing := slices.DeleteFunc(theirs, func(line string) bool {
		_, found := slices.BinarySearch(lines, line)
		return found
	})
	t.Logf("%d lines are missing or different", len(missing))
	return missing
}
