package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"flyball.dev/internal/testlevel"
)

// TestMuseum runs the scripts in the directory museum with RabbitMQ's cluster operator, as it was released in 2021.
func TestMuseum(t *testing.T) {
	testlevel.NeedsFull(t, "compiles an operator of 2021")
	const operator = "github.com/rabbitmq/cluster-operator"
	museum, err := filepath.Abs("museum")
	if err != nil {
		t.Fatal(err)
	}
	module, programs := filepath.Join(museum, "rabbitmq"), t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", programs, operator)
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	source, err := output(module, "go", "list", "-m", "-f", "{{.Dir}}", operator)
	if err != nil {
		t.Fatal(err)
	}
	p := params(t, "museum")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("PATH", programs+string(filepath.ListSeparator)+env.Getenv("PATH"))
		env.Setenv("MUSEUM", museum)
		env.Setenv("OPERATOR", strings.TrimSpace(source))
		return setup(env)
	}
	testscript.Run(t, p)
}
