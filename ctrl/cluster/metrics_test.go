package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/metrics"
)

// cached gathers the metrics of caches and returns the objects that they hold of
// each kind.
func cached(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]float64{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "flyball_cache_") {
			continue
		}
		for _, m := range family.GetMetric() {
			kind := ""
			for _, l := range m.GetLabel() {
				if l.GetName() == "kind" {
					kind = l.GetValue()
				}
			}
			kinds[kind] += 0
			if family.GetName() == "flyball_cache_objects" {
				kinds[kind] += m.GetGauge().GetValue()
			}
		}
	}
	return kinds
}

// TestMetricsOfSeveralClusters checks that the caches of two control planes are
// counted together, and leave nothing behind.
func TestMetricsOfSeveralClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alone map[string]float64
		var planes []*controlplane.ControlPlane
		for n := range 2 {
			cp, err := controlplane.Start(t.Context(), controlplane.Options{})
			if err != nil {
				t.Fatal(err)
			}
			planes = append(planes, cp)
			synctest.Wait()
			now := cached(t)
			if n == 0 {
				alone = now
			}
			if len(now) == 0 || len(now) != len(alone) || now["Namespace"] != float64(n+1)*alone["Namespace"] || now["Namespace"] == 0 {
				t.Errorf("%d control planes: %v", n+1, now)
			}
		}
		for _, cp := range planes {
			if err := cp.Stop(); err != nil {
				t.Error(err)
			}
		}
		if left := cached(t); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}
