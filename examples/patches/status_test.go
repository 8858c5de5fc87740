package main

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	patchesv1 "flyball.dev/examples/patches/api/v1"
)

// named is the metadata of all objects of the tests.
var named = metav1.ObjectMeta{Namespace: example.Namespace, Name: "web"}

// deployment returns a Deployment of somebody else's.
func deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "theirs"}
	return &appsv1.Deployment{ObjectMeta: named, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:1.29"}}},
		},
	}}
}

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, patches, "deployments", patchesv1.ConditionReady, "ReconcileFailed", deployment(), &patchesv1.Override{
		ObjectMeta: named,
		Spec:       patchesv1.OverrideSpec{Container: "app", Image: "app:2", Method: patchesv1.Merge},
	})
}
