// Package gotest runs the tests of other projects with the go command, and compares what became of
// them with a list of the tests that are known to fail.
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

// Results are what became of tests, by name: nothing of one that passed or was skipped, else the
// failure.
type Results map[string]string

// Name makes the name of a test of its package's import path and its own name. The latter is empty
// for the package as a whole.
type Name func(importPath, test string) string

// Run runs a command that prints the output of go test -json, and adds its results. That tests
// fail is not an error.
func (r Results) Run(cmd *exec.Cmd, name Name) error {
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return err
	}
	return r.add(out, name)
}

// event is a line of the output of go test -json.
type event struct{ Action, Package, ImportPath, Test, Output string }

// importPath is that of the event's package, which lines about builds have elsewhere.
func (e event) importPath() string {
	if e.Package != "" {
		return e.Package
	}
	path, _, _ := strings.Cut(e.ImportPath, " ")
	return strings.TrimSuffix(path, "_test")
}

// add adds the results in the output of go test -json: of each test without subtests that failed,
// of each that did not end, and of each package whose tests could not be built or ended early.
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
			// Its tests say why.
		case e.Action == "fail" && !parents[id]:
			r[id] = "failed\n" + tail(texts[id].String())
		default:
			r[id] = ""
		}
	}
	return nil
}

// AddGinkgo adds the results in a report that a Ginkgo suite has written as JSON. A spec's name
// begins with folder, which is how its package is called, and has its file and line. The results of
// suiteTests, the Go tests that ran the specs, are removed, as such a test fails if a spec does.
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

// tail bounds what is kept of a test's output.
func tail(s string) string {
	const most = 3000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}
