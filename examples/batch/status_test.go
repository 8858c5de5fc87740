package main

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	migrationv1 "flyball.dev/examples/batch/api/v1"
	"flyball.dev/examples/internal/exampletest"
)

// task returns a Migration.
func task() *migrationv1.Migration {
	return &migrationv1.Migration{ObjectMeta: exampletest.Named("task"), Spec: migrationv1.MigrationSpec{Image: "example.com/migrate:1"}}
}

// TestNameTaken checks that a name of a Migration's that is taken is in the status, and no longer when it is free.
func TestNameTaken(t *testing.T) {
	theirs := &batchv1.Job{ObjectMeta: exampletest.Named("task-1")}
	theirs.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "task", Image: "example.com/task:1"}}}
	exampletest.NameTaken(t, batch, migrationv1.ConditionComplete, theirs, task())
}

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, batch, "jobs", migrationv1.ConditionComplete, "ReconcileFailed", task())
}
