package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/console"
	"flyball.dev/ctrl/manager"
)

// TestTopAndWhy looks at the controllers of a control plane in the terminal.
func TestTopAndWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "console")
	url := make(chan string, 1)
	plane, err := controlplane.Start(context.Background(), controlplane.Options{Console: func() manager.Console {
		return console.New(console.Options{URLFile: file, OnURL: func(u string) { url <- u }})
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("the file with the URL remains: %v", err)
		}
	})
	t.Setenv(consoleVariable, <-url)
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := root()
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	// The service account of the namespace default is there when its controller has run.
	var why string
	for !strings.Contains(why, "ServiceAccount default/default") && t.Context().Err() == nil {
		why, err = run("why", "namespace/default")
	}
	for _, want := range []string{"because  listed Namespace default", "create", "ServiceAccount default/default"} {
		if !strings.Contains(why, want) {
			t.Errorf("flyball why has no %q: %v\n%s", want, err, why)
		}
	}
	top, err := run("top", "--once")
	if err != nil || !strings.Contains(top, "CONTROLLER") || !strings.Contains(top, "namespace") {
		t.Errorf("flyball top: %v\n%s", err, top)
	}
	if text, err := run("top", "-o", "json"); err != nil || !strings.Contains(text, `"controllers"`) {
		t.Errorf("flyball top -o json: %v\n%s", err, text)
	}
	for _, c := range []struct{ args, want string }{
		{"why absent.example.com/a", "serves no kind absent.example.com"},
		{"why namespace", "want one argument KIND/NAME"},
		{"top --console ftp://x", "as the operator prints it"},
		{"top --console http://127.0.0.1:1/console/", "does not answer"},
		{"top -o yaml", "unknown output format"},
	} {
		if out, err := run(strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
}
