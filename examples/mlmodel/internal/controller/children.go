package controller

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	mlv1 "flyball.dev/examples/mlmodel/api/v1"
)

// container is the name of the container that the operator decides. Others in the pod are left
// alone.
const container = "server"

// labelsFor returns the labels of the model's dependents, which also select its pods.
func labelsFor(model *mlv1.MLModelDeployment) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "mlmodel", "app.kubernetes.io/instance": model.Name}
}

// setDeployment sets the fields of the Deployment that the operator decides, and no others. Where
// the server has defaults, it sets the same, so that the Deployment read back is equal.
func setDeployment(d *appsv1.Deployment, model *mlv1.MLModelDeployment) {
	setLabels(&d.ObjectMeta, labelsFor(model))
	d.Spec.Replicas = model.Spec.Replicas
	if d.Spec.Selector == nil { // it is immutable
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labelsFor(model)}
	}
	setLabels(&d.Spec.Template.ObjectMeta, labelsFor(model))
	c := containerOf(&d.Spec.Template.Spec)
	c.Image = model.Spec.Image
	c.Env = []corev1.EnvVar{{Name: "MODEL_URI", Value: model.Spec.Model}}
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
}

// containerOf returns the operator's container of a pod, which it adds if there is none.
func containerOf(pod *corev1.PodSpec) *corev1.Container {
	for i := range pod.Containers {
		if pod.Containers[i].Name == container {
			return &pod.Containers[i]
		}
	}
	pod.Containers = append(pod.Containers, corev1.Container{Name: container})
	return &pod.Containers[len(pod.Containers)-1]
}

// setService sets the fields of the Service that the operator decides, as setDeployment does.
func setService(s *corev1.Service, model *mlv1.MLModelDeployment) {
	setLabels(&s.ObjectMeta, labelsFor(model))
	s.Spec.Selector = labelsFor(model)
	if len(s.Spec.Ports) != 1 {
		s.Spec.Ports = make([]corev1.ServicePort, 1)
	}
	p := &s.Spec.Ports[0] // which may have a node port, if a user has changed the type
	p.Name, p.Port, p.TargetPort, p.Protocol = "http", 80, intstr.FromString("http"), corev1.ProtocolTCP
}

// setLabels sets these labels and keeps the others.
func setLabels(o *metav1.ObjectMeta, labels map[string]string) {
	for k, v := range labels {
		metav1.SetMetaDataLabel(o, k, v)
	}
}
