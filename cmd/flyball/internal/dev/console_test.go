package dev

import (
	"testing"

	"flyball.dev/cmd/flyball/internal/testproject"
)

// TestNoConsole: a program without a manager of Flyball is built as it is, whether its module has Flyball or not. TestDev has a
// program that gets a console.
func TestNoConsole(t *testing.T) {
	const program = "-- cmd/main.go --\npackage main\n\nfunc main() {}\n"
	for name, create := range map[string]func(*testing.T){
		"without a manager": func(t *testing.T) { testproject.New(t, program) },
		"without Flyball":   func(t *testing.T) { testproject.Extract(t, program+"-- go.mod --\nmodule example.com/p\n\ngo 1.26\n") },
	} {
		t.Run(name, func(t *testing.T) {
			create(t)
			var o overlay
			if path := o.file(t.Context(), "./cmd", t.TempDir()); path != "" || !o.asked {
				t.Errorf("the overlay is %q", path)
			}
		})
	}
}
