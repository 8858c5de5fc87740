// Package endpointstest tells tests which path requests took.
//
//upstream:none It counts our two paths.
package endpointstest

import (
	"fmt"
	"slices"

	"k8s.io/component-base/metrics/legacyregistry"
)

// Paths counts requests, by path and reason.
type Paths map[Path]int

// Path is a path that a request took, "fast" or "fallback", with the reason for the fallback.
type Path struct{ Name, Reason string }

// SwitchedOff is the path of the requests to a server without the fast path.
var SwitchedOff = Path{"fallback", "switched-off"}

// Fast is the path of the requests that the fast path served.
var Fast = Path{Name: "fast"}

// Writes returns the writes that the servers in this process have served so far, by path.
func Writes() (Paths, error) {
	return Of("create", "update", "patch")
}

// Of returns the requests with one of the verbs that the servers in this process have served so far, by path.
func Of(verbs ...string) (Paths, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, err
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
			if slices.Contains(verbs, labels["verb"]) {
				counts[Path{labels["path"], labels["reason"]}] += int(metric.GetCounter().GetValue())
			}
		}
	}
	return counts, nil
}

// Since returns the counts after earlier.
func (p Paths) Since(earlier Paths) Paths {
	later := Paths{}
	for path, count := range p {
		if count -= earlier[path]; count > 0 {
			later[path] = count
		}
	}
	return later
}

// Sum returns the number of all writes.
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
