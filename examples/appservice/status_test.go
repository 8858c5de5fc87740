package main

import (
	"testing"

	"flyball.dev/ctrl/client"
	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/internal/exampletest"
)

// newApp returns an AppService.
func newApp() *appv1.AppService {
	return &appv1.AppService{ObjectMeta: exampletest.Named("web"), Spec: appv1.AppServiceSpec{Replicas: 2, Image: "nginx:1.29"}}
}

// TestNameTaken checks that a name of an AppService's that is taken is in the status, and no longer when it is free.
func TestNameTaken(t *testing.T) {
	for _, taken := range []client.Object{exampletest.Deployment("web"), exampletest.Service("web")} {
		exampletest.NameTaken(t, appService, appv1.ConditionReady, taken, newApp())
	}
}

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, appService, "services", appv1.ConditionReady, "ReconcileFailed", newApp())
	exampletest.WriteDenied(t, appService, "pods", appv1.ConditionReady, "ReplicaFailure", newApp())
}
