package main

import (
	"testing"

	"flyball.dev/examples/internal/exampletest"
	patchesv1 "flyball.dev/examples/patches/api/v1"
)

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, patches, "deployments", patchesv1.ConditionReady, "ReconcileFailed", exampletest.Deployment("web"), &patchesv1.Override{
		ObjectMeta: exampletest.Named("web"),
		Spec:       patchesv1.OverrideSpec{Container: "app", Image: "app:2", Method: patchesv1.Merge},
	})
}
