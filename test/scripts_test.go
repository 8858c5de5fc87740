// Package test runs the stories in scripts: what people type at a shell, and what they then see.
//
// A script is a testscript. Each has a home, a kubeconfig and a control plane of its own, which it starts
// as anybody would, with "flyball up"; it talks to it with kubectl over HTTPS. Beside the commands of
// testscript there are kubectl, flyball and appservice, which are programs built from source, and start,
// expect, terminate, interrupt and finish for those that run in the background. Nothing sleeps: a script
// waits with kubectl (wait, rollout status) or for a line that a program prints.
//
// The test cache does not see the sources of those programs, so after changes run it with -count=1.
package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptLimit ends a script that hangs.
const scriptLimit = 2 * time.Minute

func TestMain(m *testing.M) {
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "flyball-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(folder)
		if err := build(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		os.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
		return m.Run()
	}())
}

// build builds the commands of the module that is tested, as it ships them, and kubectl.
func build(folder string) error {
	for _, b := range []struct {
		module string
		args   []string
	}{
		{"..", []string{"-ldflags=-s -w", "./cmd/flyball", "./examples/appservice"}},
		{".", []string{"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion, "./kubectl"}},
	} {
		cmd := exec.Command("go", append([]string{"build", "-o", folder + string(filepath.Separator)}, b.args...)...)
		cmd.Dir = b.module
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return nil
}

// kubernetesVersion is that of the kubectl in go.mod, which its own build would stamp into it.
const kubernetesVersion = "v1.37.2"

func TestScripts(t *testing.T) {
	crd, err := filepath.Abs("../examples/appservice/config")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:      "scripts",
		Deadline: time.Now().Add(scriptLimit),
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GOGC", "off") // a kubectl does not live long enough
			env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, ".flyball", "kubeconfig"))
			env.Setenv("APPSERVICE_CONFIG", crd)
			env.Values[runningKey{}] = map[string]*background{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"kubectl":    program("kubectl"),
			"flyball":    program("flyball"),
			"appservice": program("appservice"),
			"start":      start,
			"expect":     expect,
			"terminate":  end(syscall.SIGTERM),
			"interrupt":  end(os.Interrupt),
			"finish":     end(nil),
		},
		RequireUniqueNames: true,
	})
}

// program is the command that runs a program to its end.
func program(name string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		switch err := ts.Exec(name, args...); {
		case err != nil && !neg:
			ts.Fatalf("%s failed: %v", name, err)
		case err == nil && neg:
			ts.Fatalf("%s succeeded, which it should not", name)
		}
	}
}
