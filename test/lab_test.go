package test

import (
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestLab runs the scripts in the directory lab. Their runs of operators are in real time and at rest when nothing has changed for a
// while, so they do not compete with the other scripts for the processor.
func TestLab(t *testing.T) {
	p := params(t, "lab", 0)
	p.Deadline = time.Time{} // the one of the test
	testscript.Run(t, p)
}
