package main

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	flagsv1 "flyball.dev/examples/hybrid/api/v1"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
)

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, hybrid(t), "configmaps", flagsv1.ConditionSynced, "ReconcileFailed", &flagsv1.FeatureFlags{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "flags"},
		Spec:       flagsv1.FeatureFlagsSpec{Project: "shop", Interval: metav1.Duration{Duration: time.Hour}},
	})
}
