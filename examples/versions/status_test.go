package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	netv1 "flyball.dev/examples/versions/api/v1"
)

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, newExample(), "configmaps", netv1.ConditionReady, "ReconcileFailed", &netv1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "web"},
		Spec:       netv1.ProxySpec{Host: "web.example.com"},
	})
}
