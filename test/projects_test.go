package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestProjects runs the scripts in the directory projects, which make projects with flyball init,
// build them and run their tests. They share the caches of the go command.
func TestProjects(t *testing.T) {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Fields(string(out))
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	p := params(t, "projects")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("GOCACHE", caches[0])
		env.Setenv("GOMODCACHE", caches[1])
		env.Setenv("GOFLAGS", "-trimpath -buildvcs=false")
		env.Setenv("FLYBALL_SOURCE", source)
		if err := setup(env); err != nil {
			return err
		}
		env.Setenv("GOGC", "100") // the compiler lives long enough
		return nil
	}
	testscript.Run(t, p)
}
