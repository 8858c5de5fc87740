package plan

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

var update = flag.Bool("flyball.plan.update", false, "write the golden files of plans instead of comparing with them")

// Run makes a plan in virtual time. It fails the test if there is none. The operator must be one of this process, and the rules
// of package lab for operators apply: nothing in it may wait for a socket, a file or a process.
func Run(t *testing.T, o Options) (p *Plan) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if p, err = makePlan(t.Context(), o, true); err != nil {
			t.Fatal(err)
		}
	})
	return p
}

// Golden compares the text of a plan with a file, and fails the test if they differ. The flag -flyball.plan.update writes the file.
func Golden(t *testing.T, p *Plan, file string) {
	t.Helper()
	var got bytes.Buffer
	if err := p.WriteText(&got, true); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: go test -flyball.plan.update writes it", err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the plan is not the one of %s; go test -flyball.plan.update writes it:\n%s", file, got.String())
	}
}
