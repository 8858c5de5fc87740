// Package endpointstest tells tests which path requests took.
//
//upstream:none It counts our two paths.
package endpointstest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
)

// Paths counts requests, by path and reason.
type Paths map[Path]int

// Path is a path that a request took, "fast" or "fallback", with the reason for the fallback, or for decoding the listed objects.
type Path struct{ Name, Reason string }

// SwitchedOff is the path of the requests to a server without the fast path.
var SwitchedOff = Path{"fallback", "switched-off"}

// Fast is the path of the requests that the fast path served.
var Fast = Path{Name: "fast"}

// Fallback returns the path of the requests that upstream's handler served for a reason.
func Fallback(reason string) Path { return Path{"fallback", reason} }

// Decoded returns the path of the lists and watches that the fast path served, and decoded all objects for a reason.
func Decoded(reason string) Path { return Path{"fast", reason} }

// Writes are the verbs of the writes that have a fast path.
var Writes = []string{"create", "update", "patch"}

// Count returns a function that counts the requests with one of the verbs since the call of Count, to all servers in this
// process. They are requests for a resource, or for all if its name is empty. A request counts when its path is known, which may
// be after its response was begun.
func Count(t testing.TB, resource string, verbs ...string) func() Paths {
	t.Helper()
	before := counted(t, resource, verbs)
	return func() Paths {
		t.Helper()
		since := Paths{}
		for path, count := range counted(t, resource, verbs) {
			if count -= before[path]; count > 0 {
				since[path] = count
			}
		}
		return since
	}
}

// counted returns the requests since the start of this process.
func counted(t testing.TB, resource string, verbs []string) Paths {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := Paths{}
	for _, family := range families {
		if family.GetName() != "flyball_apiserver_path_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if slices.Contains(verbs, labels["verb"]) && (resource == "" || labels["resource"] == resource) {
				counts[Path{labels["path"], labels["reason"]}] += int(metric.GetCounter().GetValue())
			}
		}
	}
	return counts
}

// Require fails the test unless n requests took one path, and no request another.
func (p Paths) Require(t testing.TB, path Path, n int) {
	t.Helper()
	if !maps.Equal(p, Paths{path: n}) {
		t.Errorf("the requests took the paths %v, want %d with %v", p, n, path)
	}
}

// Sum returns the number of all requests.
func (p Paths) Sum() (sum int) {
	for _, count := range p {
		sum += count
	}
	return sum
}

// Check returns an error unless all writes took the fallback because the fast path was switched off, or, with
// fast, at least a share of them took the fast path and none was switched off.
func (p Paths) Check(fast bool, share float64) error {
	all := p.Sum()
	switch {
	case !fast && (all == 0 || p[SwitchedOff] != all):
		return fmt.Errorf("of %d writes, %d took the fallback because the fast path was switched off: %v", all, p[SwitchedOff], p)
	case fast && (p[SwitchedOff] > 0 || float64(p[Fast]) < share*float64(all) || all == 0):
		return fmt.Errorf("of %d writes, %d took the fast path, which is less than %.0f %%: %v", all, p[Fast], 100*share, p)
	}
	return nil
}
