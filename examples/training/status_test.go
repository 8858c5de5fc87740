package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/exampletest"
	trainingv1 "flyball.dev/examples/training/api/v1"
)

// newJob returns a TrainingJob.
func newJob() *trainingv1.TrainingJob {
	return &trainingv1.TrainingJob{ObjectMeta: exampletest.Named("web"), Spec: trainingv1.TrainingJobSpec{
		Image: "example.com/train:1", Workers: 2, ParameterServers: 1, RestartPolicy: trainingv1.RestartAll, BackoffLimit: 1,
	}}
}

// TestNameTaken checks that a name of a TrainingJob's that is taken is in the status, and no longer when it is free.
func TestNameTaken(t *testing.T) {
	for _, taken := range []client.Object{
		exampletest.Service("web"),
		&corev1.Pod{ObjectMeta: exampletest.Named("web-worker-1"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
	} {
		exampletest.NameTaken(t, training, trainingv1.ConditionRunning, taken, newJob())
	}
}

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, training, "pods", trainingv1.ConditionRunning, "ReconcileFailed", newJob())
}
