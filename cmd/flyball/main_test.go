package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"flyball.dev/internal/reserve/reservetest"
)

// TestHelpHasAllCommands checks that each command is in a group and has a short description.
func TestHelpHasAllCommands(t *testing.T) {
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range cmd.Commands() {
		if c.GroupID == "" && c.Name() != "version" && c.Name() != "help" && c.Name() != "completion" {
			t.Errorf("%s is in no group", c.Name())
		}
		if !strings.Contains(out.String(), "  "+c.Name()+" ") || c.Short == "" {
			t.Errorf("%s is not explained", c.Name())
		}
	}
	if !strings.Contains(out.String(), "flyball init ") || !strings.Contains(out.String(), "Development:") {
		t.Errorf("the help is\n%s", &out)
	}
}

// TestUsageErrors checks that errors of the command line suggest a remedy.
func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"generate --chek", "unknown flag: --chek: see flyball generate --help"},
		{"create api --nope", "see flyball create api --help"},
		{"init shop", `unexpected argument "shop": the project is made in the current folder`},
		{"apply x.yaml", `unexpected argument "x.yaml": name files and folders with -f`},
		{"create api Order", `unexpected argument "Order": the kind is named by --group, --version and --kind`},
		{"create order", `unexpected argument "order": use flyball create api or flyball create webhook`},
		{"up now", `unexpected argument "now": see flyball up --help`},
		{"apply", "name files and folders with -f"},
		{"crate", "Did you mean this?\n\tcreate"},
	} {
		cmd := root()
		cmd.SetOut(io.Discard)
		cmd.SetArgs(strings.Fields(tt.args))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.args, err)
		}
	}
}

// TestWrongFolder checks that commands suggest a remedy in a folder without a project.
func TestWrongFolder(t *testing.T) {
	flyball, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const project = "run it in the folder of a project"
	for args, want := range map[string]string{
		"dev":                 project,
		"vet ./...":           project,
		"vet":                 project,
		"generate":            "is not the folder of a project",
		"edit --multigroup":   "change to the folder of a project",
		"install":             "there is no folder config/crd/bases: change to the folder of the project",
		"install -f x":        "stat x: no such file or directory\n",
		"kubeconfig --user a": "there is no kubeconfig .flyball/kubeconfig: start a control plane with flyball up",
	} {
		folder := t.TempDir()
		code, stdout, stderr := inProject(t, folder, append([]string{flyball}, strings.Fields(args)...)...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d\n%s\n%s", args, code, stdout, stderr)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%s: %d files are left, %v", args, len(left), err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	for _, args := range []string{"dev", "vet", "generate crd paths=."} {
		code, _, stderr := inProject(t, t.TempDir(), append([]string{flyball}, strings.Fields(args)...)...)
		if code != 1 || !strings.Contains(stderr, "install Go from https://go.dev/dl") {
			t.Errorf("%s without go: exit code %d\n%s", args, code, stderr)
		}
	}
}

// TestApplyWithoutControlPlane: the kubeconfig of a control plane that has ended.
func TestApplyWithoutControlPlane(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("KUBECONFIG", "")
	address := reservetest.Address(t)
	const origin = `, extensions: [{name: flyball.dev/control-plane, extension: {program: ops, directory: /src, pid: 7, started: "2026-01-02T03:04:05Z"}}]`
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
	if err := os.Mkdir(".flyball", 0o777); err != nil {
		t.Fatal(err)
	}
	for extension, want := range map[string]string{
		"":     "^the cluster at http://" + address + ", of the kubeconfig .*\\.flyball/kubeconfig, cannot be reached: .*refused",
		origin: "^nobody answers at http://" + address + ": the control plane of the kubeconfig .*\\.flyball/kubeconfig was started by ops in /src at 2026-01-02T03:04:05Z \\(PID 7\\), and seems to have ended; .*refused",
	} {
		config := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: \"http://" + address + "\"" + extension + "}}]\n" +
			"contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
		if err := os.WriteFile(".flyball/kubeconfig", []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := root()
		cmd.SetErr(io.Discard)
		cmd.SetIn(strings.NewReader(manifest))
		cmd.SetArgs([]string{"apply", "-f", "-"})
		if err := cmd.ExecuteContext(t.Context()); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestAsk: Ctrl-C does not wait for an answer.
func TestAsk(t *testing.T) {
	lines := make(chan string, 3)
	lines <- "perhaps"
	lines <- "No"
	if yes, err := ask(t.Context(), lines, io.Discard, "Well?"); yes || err != nil {
		t.Errorf("%v, %v", yes, err)
	}
	lines <- ""
	if yes, err := ask(t.Context(), lines, io.Discard, "Well?"); !yes || err != nil {
		t.Errorf("%v, %v", yes, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ask(ctx, lines, io.Discard, "Well?"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
