package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"flyball.dev/cmd/flyball/internal/hostprocess"
	_ "flyball.dev/internal/orphans"
)

// TestMain lets the test program stand in for flyball, which other programs run as a tool.
func TestMain(m *testing.M) {
	hostprocess.Main()
	if os.Getenv("FLYBALL_MAIN") != "" {
		main()
	}
	if os.Getenv("FLYBALL_TEST_IN_POD") != "" {
		os.Exit(printIdentity())
	}
	os.Exit(m.Run())
}

// project writes a module with one file, which stands in for an operator on controller-runtime: its
// dependency is a part of it.
func project(t *testing.T, reconcile string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example.com/operator\n\ngo 1.26\n\nrequire sigs.k8s.io/controller-runtime v0.0.0\n\n" +
			"replace sigs.k8s.io/controller-runtime => ./runtime\n",
		"runtime/go.mod":                     "module sigs.k8s.io/controller-runtime\n\ngo 1.26\n",
		"runtime/pkg/reconcile/reconcile.go": "package reconcile\n\ntype Result struct {\n\tRequeue bool\n\tRequeueAfter int64\n}\n",
		"reconciler.go": "package operator\n\nimport \"sigs.k8s.io/controller-runtime/pkg/reconcile\"\n\n" +
			"func again(err error) (reconcile.Result, error) {\n" + reconcile + "\n}\n",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// inProject runs a command in a folder, with the test program as flyball.
func inProject(t *testing.T, folder string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &out, &errs
	cmd.Env = append(os.Environ(), "FLYBALL_MAIN=1", "GOFLAGS=-mod=mod", "GOWORK=off")
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), progressLine.ReplaceAllString(out.String(), ""), progressLine.ReplaceAllString(errs.String(), "")
}

// progressLine matches the progress lines of a command.
var progressLine = regexp.MustCompile(`(?m)^flyball(:|  \|) .*: \d+ s(\n|$)`)

const hotLoop = "\treturn reconcile.Result{Requeue: true}, nil"

func TestVet(t *testing.T) {
	flyball, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		source         string
		args           []string
		code           int
		stdout, stderr string
	}{
		"a finding": {hotLoop, []string{flyball, "vet", "./..."}, 3,
			"", "reconciler.go:6:26: Requeue: true is deprecated"},
		"no package means this folder": {hotLoop, []string{flyball, "vet"}, 3, "", "reconciler.go:6:26: "},
		"nor do flags":                 {hotLoop, []string{flyball, "vet", "-requeue"}, 3, "", "reconciler.go:6:26: "},
		"as JSON":                      {hotLoop, []string{flyball, "vet", "-json", "./..."}, 0, `"message": "Requeue: true is deprecated`, ""},
		"nothing":                      {"\treturn reconcile.Result{}, err", []string{flyball, "vet", "./..."}, 0, "", ""},
		"silenced": {"\t//flyball:ignore requeue the limiter is slow\n" + hotLoop,
			[]string{flyball, "vet", "./..."}, 0, "", ""},
		"silenced without a reason": {"\t//flyball:ignore requeue\n" + hotLoop,
			[]string{flyball, "vet", "-ignore", "./..."}, 3, "", "without a reason"},
		"another rule only": {hotLoop, []string{flyball, "vet", "-conflict", "./..."}, 0, "", ""},
		"all rules but one": {hotLoop, []string{flyball, "vet", "-requeue=false", "./..."}, 0, "", ""},
		"an unknown rule": {hotLoop, []string{flyball, "vet", "-reqeue", "./..."}, 2,
			"", "The rules are: adoption, conflict, createexists"},
		"what does not compile": {"\treturn nothing, err", []string{flyball, "vet", "./..."}, 1,
			"", "reconciler.go:6:9: undefined: nothing"},
		"no such package":    {hotLoop, []string{flyball, "vet", "./nothing"}, 1, "", "nothing: directory not found"},
		"help for a rule":    {hotLoop, []string{flyball, "vet", "help", "requeue"}, 0, "docs/vet/requeue.md", ""},
		"as a tool":          {hotLoop, []string{"go", "vet", "-vettool=" + flyball, "./..."}, 1, "", "reconciler.go:6:26: Requeue: true is deprecated"},
		"as a tool, a rule":  {hotLoop, []string{"go", "vet", "-vettool=" + flyball, "-conflict", "./..."}, 0, "", ""},
		"as a tool, nothing": {"\treturn reconcile.Result{}, err", []string{"go", "vet", "-vettool=" + flyball, "./..."}, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := inProject(t, project(t, c.source), c.args...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d, want %d\n%s\n%s", code, c.code, stdout, stderr)
			}
			if c.stdout == "" && stdout != "" || c.stderr == "" && stderr != "" {
				t.Errorf("unexpected output\n%s\n%s", stdout, stderr)
			}
			if strings.Contains(strings.Join(c.args, " "), "-json") && !json.Valid([]byte(stdout)) {
				t.Errorf("not JSON: %s", stdout)
			}
		})
	}
}

// TestVetOfWhatDoesNotCompile: the compiler's errors are printed, each once, and the findings in other
// packages, and the exit code says that something does not compile.
func TestVetOfWhatDoesNotCompile(t *testing.T) {
	flyball, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := project(t, "\tvar unused int\n\treturn nothing, again(1, 2)")
	other := "package other\n\nimport \"sigs.k8s.io/controller-runtime/pkg/reconcile\"\n\n" +
		"func again() (reconcile.Result, error) {\n" + hotLoop + "\n}\n"
	if err := errors.Join(os.Mkdir(filepath.Join(folder, "other"), 0o777),
		os.WriteFile(filepath.Join(folder, "other", "other.go"), []byte(other), 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"./..."}, {"-json", "./..."}} {
		code, _, stderr := inProject(t, folder, append([]string{flyball, "vet"}, args...)...)
		if code != 1 {
			t.Errorf("%q: exit code %d", args, code)
		}
		for _, want := range []string{"reconciler.go:6:6: declared and not used: unused\n", "reconciler.go:7:9: undefined: nothing\n"} {
			if !strings.Contains("\n"+stderr, "\n"+want) || strings.Count(stderr, strings.TrimSpace(want)) != 1 {
				t.Errorf("%q: there is no %q, or several times:\n%s", args, want, stderr)
			}
		}
		if strings.Contains(stderr, "operator@") || strings.Contains(stderr, "skipped") || strings.Count(stderr, "\n") > 7 {
			t.Errorf("%q:\n%s", args, stderr)
		}
		if finding := strings.Contains(stderr, "other.go:6:26: Requeue: true is deprecated"); finding != (len(args) == 1) {
			t.Errorf("%q: the finding in another package:\n%s", args, stderr)
		}
	}
	folder = project(t, strings.Repeat("\tnothing()\n", 30))
	if _, _, stderr := inProject(t, folder, flyball, "vet"); strings.Count(stderr, "\n") != maxErrors+1 || !strings.HasSuffix(stderr, "\ntoo many errors\n") {
		t.Errorf("30 errors:\n%s", stderr)
	}
}

func TestVetFixes(t *testing.T) {
	flyball, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const source = "\tif err != nil {\n\t\treturn reconcile.Result{Requeue: true}, err\n\t}\n\treturn reconcile.Result{Requeue: true, RequeueAfter: 1}, nil"
	folder := project(t, source)
	if code, _, stderr := inProject(t, folder, flyball, "vet", "-fix", "./..."); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	content, err := os.ReadFile(filepath.Join(folder, "reconciler.go"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "Requeue: true") || !strings.Contains(string(content), "Result{RequeueAfter: 1}, nil") {
		t.Errorf("after the fixes:\n%s", content)
	}
}

// TestVetOutsideOfModule: the error is the go command's, without the programs that it has passed through.
func TestVetOutsideOfModule(t *testing.T) {
	flyball, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"vet"}, `^flyball vet: go: .*go\.mod.*flyball init makes one\n$`},
		{[]string{"vet", "./..."}, `^pattern \./\.\.\.: .*main module.*flyball init makes one\n$`},
	} {
		cmd := exec.CommandContext(t.Context(), flyball, tc.args...)
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "FLYBALL_MAIN=1", "GOWORK=off", "GOFLAGS=")
		out, _ := cmd.CombinedOutput()
		out = progressLine.ReplaceAll(out, nil)
		if code := cmd.ProcessState.ExitCode(); code != 1 || !regexp.MustCompile(tc.want).Match(out) {
			t.Errorf("%v: exit code %d: %q", tc.args, code, out)
		}
	}
}
