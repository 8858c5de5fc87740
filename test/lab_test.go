package test

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestLab runs the scripts in the directory lab. Their runs of operators are in real time and at rest when nothing has changed for a
// while, so they do not compete with the other scripts for the processor.
func TestLab(t *testing.T) {
	testscript.Run(t, params(t, "lab"))
}
