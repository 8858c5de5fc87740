// Package gotest runs the tests of other projects with the go command, and compares the results with a list of known
// failures.
package gotest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Results maps tests to their results: "" for a test that passed or was skipped, and the failure otherwise.
type Results map[string]string

// Name returns the name of a test, given the import path of its package and its own name. The test is empty for the
// package as a whole.
type Name func(importPath, test string) string

// Run runs a command that prints the output of go test -json, and adds the results. Failing tests are not an error.
func (r Results) Run(cmd *exec.Cmd, name Name) error {
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return err
	}
	return r.add(out, name)
}

// event is a line of the output of go test -json.
type event struct{ Action, Package, ImportPath, Test, Output string }

// importPath returns the import path of the event's package. Events about builds have it in another field.
func (e event) importPath() string {
	if e.Package != "" {
		return e.Package
	}
	path, _, _ := strings.Cut(e.ImportPath, " ")
	return strings.TrimSuffix(path, "_test")
}

// add adds the results in the output of go test -json. It records each failed test without subtests, each test that did
// not end, and each package with tests that could not be built or ended early.
func (r Results) add(output []byte, name Name) error {
	texts, parents, running := map[string]*strings.Builder{}, map[string]bool{}, map[string]bool{}
	var ended []event
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("output of go test -json: %w", err)
		}
		id := name(e.importPath(), e.Test)
		if texts[id] == nil {
			texts[id] = &strings.Builder{}
		}
		switch e.Action {
		case "output", "build-output":
			texts[id].WriteString(e.Output)
		case "run":
			running[id] = true
		case "pass", "fail", "skip":
			delete(running, id)
			ended = append(ended, e)
			if i := strings.LastIndex(e.Test, "/"); i > 0 && e.Action == "fail" {
				parents[name(e.importPath(), e.Test[:i])] = true
			}
		}
	}
	for id := range running {
		r[id] = "ended the process\n" + tail(texts[id].String())
	}
	for _, e := range ended {
		id := name(e.importPath(), e.Test)
		switch {
		case e.Test == "" && (e.Action != "fail" || strings.Contains("\n"+texts[id].String(), "\nFAIL\n")):
			// The subtests have the reason.
		case e.Action == "fail" && !parents[id]:
			r[id] = "failed\n" + tail(texts[id].String())
		default:
			r[id] = ""
		}
	}
	return nil
}

// AddGinkgo adds the results in the JSON report of a Ginkgo suite. The name of a spec consists of folder, which names
// the package, and the file, line and text of the spec. AddGinkgo removes the results of suiteTests, the Go tests that
// ran the specs, because such a test fails if any spec fails.
func (r Results) AddGinkgo(report []byte, folder string, suiteTests []string) error {
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(report, &suites); err != nil {
		return fmt.Errorf("report of Ginkgo: %w", err)
	}
	for _, test := range suiteTests {
		delete(r, folder+" "+test)
	}
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			r[s.name(folder)] = s.failure()
		}
	}
	return nil
}

// tail returns the end of a test's output.
func tail(s string) string {
	const most = 3000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}
