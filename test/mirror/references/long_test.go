package references

import (
	"strings"
	"testing"

	_ "flyball.dev/internal/orphans"
)

// TestLong checks which functions are too long for having neither a reference nor a reason.
func TestLong(t *testing.T) {
	long, err := Long(extract(t, "testdata/long.txtar"), "tree", 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(long) != 1 {
		t.Errorf("got functions in %d packages, want 1", len(long))
	}
	equal(t, long["tree/a"], strings.Split(`tree/a/a.go:8 Four (4 lines)
tree/a/a.go:27 T.Method (4 lines)`, "\n"))
}
