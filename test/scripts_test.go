// Package test runs the scripts in the directory scripts: shell commands and their expected output.
//
// Each script is a testscript with its own home directory, kubeconfig and control plane. It starts the control plane
// with "flyball up", and sends requests with kubectl over HTTPS. In addition to the commands of testscript, there are
// the programs kubectl, helm, etcdctl, flyball and appservice, which are built from source, and the commands start, expect, terminate,
// interrupt and finish for background programs, and webhooks, which serves webhooks. No script sleeps: scripts wait with kubectl (wait, rollout status) or
// for a line of output.
//
// The test cache does not depend on the sources of those programs, so run the tests with -count=1.
package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"flyball.dev/internal/orphans"
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if folder := os.Getenv("FLYBALL_TEST_PROGRAMS"); folder != "" { // built by an earlier run of go build
			os.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
			return m.Run()
		}
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

// build builds the commands of the tested module, kubectl, Helm and etcdctl.
func build(folder string) error {
	source, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	for _, b := range []struct {
		module string
		args   []string
	}{
		{"..", []string{"-tags=kustomize_disable_go_plugin_support",
			"-ldflags=-s -w -X flyball.dev/cmd/flyball/internal/scaffold.builtFrom=" + source, "./cmd/flyball", "./examples/appservice"}},
		{".", []string{"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion, "./kubectl",
			"./kubebuilder", "sigs.k8s.io/kustomize/kustomize/v5", "go.etcd.io/etcd/etcdctl/v3", "helm.sh/helm/v4/cmd/helm"}},
	} {
		cmd := exec.Command("go", append([]string{"build", "-o", folder + string(filepath.Separator)}, b.args...)...)
		cmd.Dir = b.module
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return nil
}

// kubernetesVersion returns the version of kubectl in go.mod, which its release build sets.
const kubernetesVersion = "v1.37.2"

func TestScripts(t *testing.T) {
	testscript.Run(t, params(t, "scripts"))
}

// params returns the parameters of the scripts in a folder.
func params(t *testing.T, folder string) testscript.Params {
	crd, err := filepath.Abs("../examples/appservice/config")
	if err != nil {
		t.Fatal(err)
	}
	charts, err := filepath.Abs("testdata/helm")
	if err != nil {
		t.Fatal(err)
	}
	kwok, err := output("..", "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok")
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Dir: folder,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv(orphans.Variable, os.Getenv(orphans.Variable))
			env.Setenv("GOGC", "off") // a kubectl does not live long enough
			env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, ".flyball", "kubeconfig"))
			env.Setenv("APPSERVICE_CONFIG", crd)
			env.Setenv("CHARTS", charts)
			env.Setenv("KWOK_STAGES", filepath.Join(strings.TrimSpace(kwok), "kustomize", "stage"))
			env.Values[runningKey{}] = map[string]*background{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"kubectl":    program("kubectl"),
			"helm":       program("helm"),
			"etcdctl":    program("etcdctl"),
			"flyball":    program("flyball"),
			"appservice": program("appservice"),
			"start":      start,
			"expect":     expect,
			"terminate":  end(syscall.SIGTERM),
			"interrupt":  end(os.Interrupt),
			"finish":     end(nil),
			"webhooks":   webhooks,
		},
		RequireUniqueNames: true,
	}
}

// output returns the standard output of a program that runs in a folder.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	return string(out), err
}

// program returns the command that runs a program until it exits.
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
