package builtin

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"flyball.dev/apiserver/kinds/batch"
)

const deploymentManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
`

func TestDeploymentStatus(t *testing.T) {
	old := read(t, deploymentManifest).(*appsv1.Deployment)
	old.Status.CollisionCount = new(int32(2))
	d := old.DeepCopy()
	d.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 2, AvailableReplicas: -1, CollisionCount: new(int32(1))}
	compareMessages(t, []string{
		"status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
		"status.collisionCount: Invalid value: 1: cannot be decremented",
		"status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
	}, messages(describeKindOf(t, d).errors("ValidateStatus", d, old)))
}

// TestJobs makes the selector and the labels of a Job.
func TestJobs(t *testing.T) {
	job := read(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: once, uid: u1}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}`).(*batchv1.Job)
	batch.PrepareJob(t.Context(), job, nil)
	compareMessages(t, nil, messages(batch.ValidateJob(job, nil)))
	if job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] != "u1" || job.Spec.Template.Labels[batchv1.JobNameLabel] != "once" {
		t.Errorf("selector %v, labels %v", job.Spec.Selector, job.Spec.Template.Labels)
	}
}
