package controllerstest

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
)

// Web is the key of the Deployment, the StatefulSet and the Service of the tests.
var Web = client.ObjectKey{Namespace: "default", Name: "web"}

// Template returns a template with one container of an image.
func Template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
	}
}

// Deployment returns the Deployment [Web].
func Deployment(replicas int32, image string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: Web.Namespace, Name: Web.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Template: Template(image),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
}

// Deployment gets the Deployment [Web].
func (e Env) Deployment() *appsv1.Deployment {
	e.Helper()
	d := &appsv1.Deployment{}
	e.Must(e.Get(e.Context(), Web, d))
	return d
}

// ChangeDeployment patches the Deployment and waits until the controllers are idle.
func (e Env) ChangeDeployment(change func(*appsv1.Deployment)) *appsv1.Deployment {
	e.Helper()
	d := e.Deployment()
	before := client.MergeFrom(d.DeepCopy())
	change(d)
	e.Must(e.Patch(e.Context(), d, before))
	e.WaitIdle()
	return e.Deployment()
}

// pods returns the image of each pod and whether it is ready, sorted.
func (e Env) pods() []string {
	e.Helper()
	list := &corev1.PodList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(Web.Namespace)))
	var described []string
	for _, p := range list.Items {
		state := p.Spec.Containers[0].Image
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				state += " ready"
			}
		}
		described = append(described, state)
	}
	slices.Sort(described)
	return described
}

// WantPods checks the image of each pod in the namespace of [Web], with "ready" if the pod is ready, sorted.
func (e Env) WantPods(described ...string) {
	e.Helper()
	if got := e.pods(); !slices.Equal(got, described) {
		e.Errorf("the pods are %q, want %q", got, described)
	}
}

// SetReplicas is a change for [Env.ChangeDeployment].
func SetReplicas(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

// IsRolledOut is the condition that "kubectl rollout status" waits for.
func IsRolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
		d.Status.Replicas == d.Status.UpdatedReplicas && d.Status.AvailableReplicas == d.Status.UpdatedReplicas
}
