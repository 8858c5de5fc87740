package compat

import (
	"slices"
	"strings"
	"testing"
)

// Every metric of controller-runtime exists in Flyball, with the same name and labels.
func TestMetrics(t *testing.T) {
	peer := strings.Split(strings.TrimSpace(run(t, ".", "go", "run", "./testdata/metrics")), "\n")
	own := strings.Split(strings.TrimSpace(run(t, ".", "go", "run", "-modfile=flyball.mod", "./testdata/metrics")), "\n")
	if len(peer) < 20 {
		t.Fatalf("only %d metrics of controller-runtime: %q", len(peer), peer)
	}
	for _, metric := range peer {
		if !slices.Contains(own, metric) {
			t.Errorf("Flyball does not have %s", metric)
		}
	}
}
