package controller

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mlv1 "flyball.dev/examples/mlmodel/api/v1"
)

func TestReadiness(t *testing.T) {
	model := &mlv1.MLModelDeployment{}
	model.Spec.Replicas = new(int32(2))
	for _, tt := range []struct {
		name   string
		status appsv1.DeploymentStatus
		want   string
	}{
		{"complete", appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2},
			"AllServersReady"},
		{"the status is of an older generation",
			appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2}, "RollingOut"},
		{"an old pod is left", appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 2, ReadyReplicas: 2},
			"RollingOut"},
		{"a pod is missing", appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1},
			"RollingOut"},
		{"a pod is not ready", appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 1},
			"ServersNotReady"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: tt.status}
			got := readiness(model, d)
			if got.Reason != tt.want || (got.Status == metav1.ConditionTrue) != (tt.want == "AllServersReady") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
