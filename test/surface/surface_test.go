package surface

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite missing.txt")

const list = "missing.txt"

func TestSurface(t *testing.T) {
	missing := missingFrom(t, own)
	if *update {
		if err := os.WriteFile(list, []byte(strings.Join(missing, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	known := knownMissing(t)
	for _, line := range missing {
		if !slices.Contains(known, line) {
			t.Errorf("missing or different: %s", line)
		}
	}
	for _, line := range known {
		if !slices.Contains(missing, line) {
			t.Errorf("no longer missing, take it from %s: %s", list, line)
		}
	}
}

// The module compat has everything under the import path of controller-runtime. What has an
// unexported type in its signature is a variable there.
func TestCompat(t *testing.T) {
	known := knownMissing(t)
	for _, line := range missingFrom(t, compat) {
		if !slices.Contains(known, line) && !slices.Contains(variables, line) {
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

func knownMissing(t *testing.T) []string {
	recorded, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(recorded)), "\n")
}
