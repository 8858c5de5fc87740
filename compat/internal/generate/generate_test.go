package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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

// README.md says of each variable what a write to it does. Those of the root package are forwards,
// which it describes together.
func TestVariablesAreDocumented(t *testing.T) {
	const root = "../.."
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := generated(root)
	if err != nil {
		t.Fatal(err)
	}
	declaration, found := regexp.MustCompile(`(?m)^var (\w+) =`), 0
	for name, content := range files {
		if name == fileName {
			continue
		}
		for _, m := range declaration.FindAllSubmatch(content, -1) {
			found++
			if !regexp.MustCompile("[`.]" + string(m[1]) + "`").Match(readme) {
				t.Errorf("README.md does not describe the variable %s in %s", m[1], name)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d variables were found", found)
	}
}
