package exampletest

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/examples/internal/example"
)

// Named returns the metadata of an object of the tests.
func Named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: example.Namespace, Name: name}
}

// Deployment returns a Deployment of somebody else's.
func Deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": "theirs"}
	return &appsv1.Deployment{ObjectMeta: Named(name), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:1.29"}}},
		},
	}}
}

// Service returns a Service of somebody else's.
func Service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: Named(name), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
}
