package main

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
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

// service returns a Service of somebody else's.
func service() *corev1.Service {
	return &corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
}

// newApp returns an AppService.
func newApp() *appv1.AppService {
	return &appv1.AppService{ObjectMeta: named, Spec: appv1.AppServiceSpec{Replicas: 2, Image: "nginx:1.29"}}
}

// TestNameTaken checks that a name of an AppService's that is taken is in the status, and no longer when it is free.
func TestNameTaken(t *testing.T) {
	for _, taken := range []client.Object{deployment(), service()} {
		exampletest.NameTaken(t, appService, appv1.ConditionReady, taken, newApp())
	}
}

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	exampletest.WriteDenied(t, appService, "services", appv1.ConditionReady, "ReconcileFailed", newApp())
	exampletest.WriteDenied(t, appService, "pods", appv1.ConditionReady, "ReplicaFailure", newApp())
}
