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
	trainingv1 "flyball.dev/examples/training/api/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, training) }

func TestLocally(t *testing.T) {
	exampletest.Locally(t, training, "kubectl get trainingjobs", "Pod created.  pod: mnist-ps-0",
		"Pod created.  pod: mnist-worker-2")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, training, func(ctx context.Context, w *example.World) error {
		sample := &trainingv1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist"}}
		return await.Object(ctx, w.Client, sample, func(job *trainingv1.TrainingJob) string {
			if !meta.IsStatusConditionTrue(job.Status.Conditions, trainingv1.ConditionRunning) {
				return "the sample does not run"
			}
			return ""
		})
	})
}
