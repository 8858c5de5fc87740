package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// database returns the example with a backup service that runs until the test ends.
func database(t *testing.T) *example.Example {
	t.Helper()
	service, err := backup.Start(backup.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	return newExample(service)
}

func TestTour(t *testing.T) { exampletest.Tour(t, database(t)) }

func TestLocally(t *testing.T) {
	exampletest.Locally(t, database(t),
		"kubectl get databases", "reason: VaultPending", "reason: Creating", "Ready is True.")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, database(t), func(ctx context.Context, w *example.World) error {
		sample := &dbv1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}}
		return await.Object(ctx, w.Client, sample, func(db *dbv1.Database) string {
			if !meta.IsStatusConditionTrue(db.Status.Conditions, dbv1.ConditionReady) {
				return "the sample is not ready"
			}
			return ""
		})
	})
}
