package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	mlv1 "flyball.dev/examples/mlmodel/api/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, mlModel) }

func TestLocally(t *testing.T) {
	exampletest.Locally(t, mlModel,
		"kubectl get mlmodeldeployments", "Deployment created.", "Service created.", "Ready is True.")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, mlModel, func(ctx context.Context, w *example.World) error {
		sample := &mlv1.MLModelDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sentiment"}}
		return await.Object(ctx, w.Client, sample, func(model *mlv1.MLModelDeployment) string {
			if !meta.IsStatusConditionTrue(model.Status.Conditions, mlv1.ConditionReady) {
				return "the sample is not ready"
			}
			return ""
		})
	})
}
