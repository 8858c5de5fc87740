package main

import (
	"bytes"
	"maps"
	"slices"
	"testing"
)

// The generated files are those that the generator writes now.
func TestGeneratedFiles(t *testing.T) {
	const root = "../.."
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := generated(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 40 {
		t.Fatalf("only %d packages are generated", len(want))
	}
	if !maps.EqualFunc(got, want, bytes.Equal) {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if !bytes.Equal(got[name], want[name]) {
				t.Errorf("%s is stale: run go generate in compat", name)
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Errorf("%s is not generated any more: run go generate in compat", name)
			}
		}
	}
}
