package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	migrationv1 "flyball.dev/examples/batch/api/v1"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, batch) }

func TestLocally(t *testing.T) {
	exampletest.Locally(t, batch, "kubectl get migrations", "Job created.  job: create-tables-1",
		"Job created.  job: add-index-1", "result: Failed")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, batch, func(ctx context.Context, w *example.World) error {
		sample := &migrationv1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "create-tables"}}
		return await.Object(ctx, w.Client, sample, func(m *migrationv1.Migration) string {
			if !meta.IsStatusConditionTrue(m.Status.Conditions, migrationv1.ConditionComplete) {
				return "the sample is not complete"
			}
			return ""
		})
	})
}
