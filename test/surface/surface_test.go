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
	theirs, err := peer.lines()
	if err != nil {
		t.Fatal(err)
	}
	if len(theirs) < 1500 {
		t.Fatalf("only %d lines of controller-runtime were found", len(theirs))
	}
	ours, err := own.lines()
	if err != nil {
		t.Fatal(err)
	}
	missing := slices.DeleteFunc(slices.Clone(theirs), func(line string) bool {
		_, found := slices.BinarySearch(ours, line)
		return found
	})
	t.Logf("%d of %d lines are missing or different", len(missing), len(theirs))
	if *update {
		if err := os.WriteFile(list, []byte(strings.Join(missing, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	recorded, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Split(strings.TrimSpace(string(recorded)), "\n")
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
