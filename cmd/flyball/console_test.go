package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"
	"unicode"

	"flyball.dev/ctrl/console"
)

// TestTopAndWhy looks at the controllers of flyball up --console in the terminal.
func TestTopAndWhy(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(consoleVariable, "")
	ctx, stop := context.WithCancel(t.Context())
	ready, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		up := root()
		up.SetArgs([]string{"up", "--console"})
		up.SetOut(out)
		err := up.ExecuteContext(ctx)
		ended <- errors.Join(err, out.CloseWithError(err))
	}()
	defer func() {
		stop()
		if err := errors.Join(<-ended, ready.Close()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(console.DefaultURLFile); !os.IsNotExist(err) {
			t.Errorf("the file with the URL remains: %v", err)
		}
	}()
	lines := bufio.NewScanner(ready)
	if !lines.Scan() {
		t.Fatal("the control plane is not ready: ", lines.Err())
	}
	go func() { // until out is closed
		for lines.Scan() {
		}
	}()
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
	var err error
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
		{"why configmap/default/a", "want one argument KIND/NAME, and the namespace as -n NAMESPACE"},
		{"why serviceaccount/default/default", "want one argument KIND/NAME, and the namespace as -n NAMESPACE"},
		{"top --console ftp://x", "as the operator prints it"},
		{"top --console http://127.0.0.1:1/console/", "does not answer"},
		{"top -o yaml", "unknown output format"},
		{"top --interval 0s", "--interval must be greater than zero"},
		{"why namespace/default --limit 0", "--limit must be greater than zero"},
		{"why namespace/default --namespace=", "must not be empty"},
	} {
		if out, err := run(strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
}

// TestConsoleTexts prints texts that obey nobody: names, messages and log lines with control characters.
func TestConsoleTexts(t *testing.T) {
	const evil = "a\x1b]0;owned\x07b\u009b31m\nc\u202ed\x7f"
	cause := console.Cause{Event: evil, Kind: evil, Object: evil, Version: evil, By: "forgotten", Origin: &console.Origin{Controller: evil, Request: evil}}
	r := console.Reconcile{
		Controller: evil, Request: evil, Causes: []console.Cause{cause, {Event: evil, By: "forgotten"}}, Result: evil, Error: evil,
		Lines: []console.Line{{Message: evil, Values: evil}}, NotShown: []string{evil},
		Writes: []console.Write{{Verb: evil, Kind: evil, Object: evil, SubResource: evil, Error: evil, Unknown: evil, Changes: []console.Change{
			{Field: evil, Before: evil, After: evil}, {Field: evil, Before: evil}, {Field: evil, After: evil},
		}}},
	}
	answers := map[string]any{
		"now": console.Now{Controllers: []console.Controller{
			{Name: evil, Kind: "Thing", Stopped: true, Started: true, Active: []console.Reconcile{r}}, {Name: "paused", Paused: true},
			{Name: "held", Started: true, PausedRequests: []string{evil}},
		}},
		"key":    console.Key{Controller: evil, Request: evil, Queue: &console.Queued{State: evil}, Reconciles: []console.Reconcile{r}, Forgotten: 1, Retries: 1, More: 2},
		"caches": console.Caches{},
		"object": console.ObjectPage{Object: &console.Object{Name: evil}, Writes: []console.WrittenBy{{Controller: evil, Request: evil, Write: r.Writes[0]}}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.FormValue("name"), "absent") {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(map[string]string{"message": evil})
			return
		}
		_ = json.NewEncoder(w).Encode(answers[path.Base(r.URL.Path)])
	}))
	defer server.Close()
	t.Setenv(consoleVariable, server.URL+"/console/?token=x")
	for args, want := range map[string]string{
		"top": "1 request paused", "top --once --interval 0s": "1 request paused", "top -o json --interval 0s": `"stopped": true`, "why thing/x": "and 2 earlier reconciles\n\nforgotten: 1 earlier reconcile of the controller\n",
		"why thing/x -o json": `"controller"`, "why other/x": "by a", "why other/x -o json": `"writes"`, "why other/absent": "",
	} {
		var out bytes.Buffer
		cmd := root()
		cmd.SetArgs(strings.Fields(args))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			out.WriteString(err.Error())
		}
		for _, r := range out.String() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%s: the output has %U: %q", args, r, out.String())
				break
			}
		}
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "owned") {
			t.Errorf("%s has no %q: %s", args, want, out.String())
		}
	}
}
