package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/examples/internal/exampletest"
)

// TestPlan compares plans for changes with what happens. No webhook runs, and the Proxy is in the storage version.
func TestPlan(t *testing.T) {
	proxy := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "net.example.com/v1", "kind": "Proxy",
		"metadata": map[string]any{"namespace": "default", "name": "edge"},
		"spec":     map[string]any{"host": "edge.example.com", "port": int64(8443), "maxConnections": int64(100), "balancing": "LeastConnections"}}}
	exampletest.Plan(t, newExample(), func(_ *rest.Config, mgr ctrl.Manager) error { return setUpControllers(mgr, 2) },
		`{"spec":{"host":"other.example.com"}}`, proxy)
}
