package runtimes_test

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "make the peer's adapter of Flyball's")

// TestSameText proves that both runtimes are driven by the same code.
func TestSameText(t *testing.T) {
	ours, err := os.ReadFile("flyball/runtime.go")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(
		"package flyball\n", "package peer\n",
		`"flyball.dev/ctrl"`, `"sigs.k8s.io/controller-runtime"`,
		`"flyball.dev/ctrl/`, `"sigs.k8s.io/controller-runtime/pkg/`,
	).Replace(string(ours))
	if *update {
		if err := os.WriteFile("peer/runtime.go", []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	theirs, err := os.ReadFile("peer/runtime.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(theirs) != want {
		t.Error("the adapters differ in more than their imports; go test ./runtimes -update makes the peer's of Flyball's")
	}
}
