package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tenancyv1 "flyball.dev/examples/applicationnamespace/api/v1"
	"flyball.dev/examples/internal/exampletest"
)

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, applicationNamespace, "namespaces", tenancyv1.ConditionReady, "ReconcileFailed", &tenancyv1.ApplicationNamespace{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       tenancyv1.ApplicationNamespaceSpec{NamespaceName: "web"},
	})
}
