package controllers

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMissing: each controller of kube-controller-manager exists, or has a reason in docs/controlplane.md.
func TestMissing(t *testing.T) {
	var rows strings.Builder
	known := map[string]bool{}
	for line := range strings.Lines(kubeControllerManager) {
		name, state := strings.Fields(line)[0], strings.Fields(line)[1]
		known[name] = true
		if reason := missing[name]; slices.Contains(Names(), name) == (reason != "") {
			t.Errorf("%s is a controller: %v; the reason why not is %q", name, slices.Contains(Names(), name), reason)
		} else if reason != "" {
			if state != "on" && state != "off" {
				state = "off, with the feature gate " + state
			}
			fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", name, state, reason)
		}
	}
	for name := range maps.Keys(missing) {
		if !known[name] {
			t.Errorf("kube-controller-manager has no %s", name)
		}
	}
	page, err := os.ReadFile("../docs/controlplane.md")
	if err != nil {
		t.Fatal(err)
	}
	const head = "| controller that does not exist here | by default | reason |\n|---|---|---|\n"
	_, table, _ := strings.Cut(string(page), head)
	if table, _, _ = strings.Cut(table, "\n\n"); table+"\n" != rows.String() {
		t.Errorf("the table in docs/controlplane.md is\n%s\nwant\n%s", table, &rows)
	}
}
