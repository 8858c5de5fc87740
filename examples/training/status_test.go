package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	trainingv1 "flyball.dev/examples/training/api/v1"
)

// named returns the metadata of an object of the tests.
func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: example.Namespace, Name: name}
}

// newJob returns a TrainingJob.
func newJob() *trainingv1.TrainingJob {
	return &trainingv1.TrainingJob{ObjectMeta: named("web"), Spec: trainingv1.TrainingJobSpec{
		Image: "example.com/train:1", Workers: 2, ParameterServers: 1, RestartPolicy: trainingv1.RestartAll, BackoffLimit: 1,
	}}
}

// TestNameTaken checks that a name of a TrainingJob's that is taken is in the status, and no longer when it is free.
func TestNameTaken(t *testing.T) {
	for _, taken := range []client.Object{
		&corev1.Service{ObjectMeta: named("web"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}},
		&corev1.Pod{ObjectMeta: named("web-worker-1"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
	} {
		exampletest.NameTaken(t, training, trainingv1.ConditionRunning, taken, newJob())
	}
}

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, training, "pods", trainingv1.ConditionRunning, "ReconcileFailed", newJob())
}
