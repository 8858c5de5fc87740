package main

import (
	"testing"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/exampletest"
	mlv1 "flyball.dev/examples/mlmodel/api/v1"
)

// newModel returns an MLModelDeployment.
func newModel() *mlv1.MLModelDeployment {
	return &mlv1.MLModelDeployment{ObjectMeta: exampletest.Named("web"), Spec: mlv1.MLModelDeploymentSpec{Model: "s3://models/1", Image: "server:1"}}
}

// TestNameTaken checks that a name of a model's that is taken is in the status, and no longer when it is free.
func TestNameTaken(t *testing.T) {
	for _, taken := range []client.Object{exampletest.Deployment("web"), exampletest.Service("web")} {
		exampletest.NameTaken(t, mlModel, mlv1.ConditionReady, taken, newModel())
	}
}

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, mlModel, "deployments", mlv1.ConditionReady, "ReconcileFailed", newModel())
	exampletest.WriteDenied(t, mlModel, "pods", mlv1.ConditionReady, "ReplicaFailure", newModel())
}
