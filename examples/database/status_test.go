package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/internal/exampletest"
)

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, database(t), "statefulsets", dbv1.ConditionReady, "ReconcileFailed",
		&corev1.Secret{ObjectMeta: exampletest.Named("web"), StringData: map[string]string{"password": "secret"}},
		&dbv1.Database{ObjectMeta: exampletest.Named("web"), Spec: dbv1.DatabaseSpec{
			Engine: dbv1.Postgres, Version: "17.5", Replicas: 2, Storage: resource.MustParse("1Gi"), SecretName: "web",
		}})
}
