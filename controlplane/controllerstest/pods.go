package controllerstest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"flyball.dev/ctrl/client"
)

// PodOn returns a pod that is bound to a node, or to none.
func PodOn(node, namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
}

// PodNames returns the names of the pods of a namespace, sorted.
func (e Env) PodNames(namespace string) []string {
	e.Helper()
	list := &corev1.PodList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(namespace)))
	names := []string{}
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return names
}

// WantPodNames checks the names of the pods of the namespace default.
func (e Env) WantPodNames(names ...string) {
	e.Helper()
	if got := e.PodNames("default"); !slices.Equal(got, names) {
		e.Errorf("there is %v, want %v", got, names)
	}
}

// Terminating returns the pods of the namespace default that are being deleted, in the order of their names.
func (e Env) Terminating() []corev1.Pod {
	e.Helper()
	list := &corev1.PodList{}
	e.Must(e.List(e.Context(), list, client.InNamespace("default")))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil })
}

// CreatePod creates a pod in the namespace default, with a specification in YAML.
func (e Env) CreatePod(name, spec string) {
	e.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	e.Must(yaml.UnmarshalStrict([]byte(spec), &pod.Spec))
	e.CreateAll(pod)
}

// States returns the phase of a pod, and the states of its containers.
func (e Env) States(name string) string {
	e.Helper()
	p := e.Pod(name)
	list := []string{string(p.Status.Phase)}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses) {
		state := "Running"
		switch {
		case c.State.Waiting != nil:
			state = strings.TrimSuffix(c.State.Waiting.Reason+" "+c.State.Waiting.Message, " ")
		case c.State.Terminated != nil:
			state = c.State.Terminated.Reason
		}
		list = append(list, state)
	}
	return strings.Join(list, ", ")
}

// WantStates checks the states of a pod.
func (e Env) WantStates(name, want string) {
	e.Helper()
	if got := e.States(name); got != want {
		e.Errorf("the pod %s is %s; want %s", name, got, want)
	}
}

// Pod returns a pod with one container of an image.
func Pod(name, image string, change ...func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: Template(image).Spec}
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

// Pod gets a pod of the namespace default.
func (e Env) Pod(name string) *corev1.Pod {
	e.Helper()
	p := &corev1.Pod{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: name}, p))
	return p
}

// scheduled returns the phase of a pod and its node, or why it is unschedulable.
func (e Env) scheduled(name string) string {
	e.Helper()
	p := e.Pod(name)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s %s: %s", p.Status.Phase, c.Reason, c.Message)
		}
	}
	return fmt.Sprintf("%s on %q", p.Status.Phase, p.Spec.NodeName)
}

// WantScheduled checks the phase of a pod and its node, or why it is unschedulable.
func (e Env) WantScheduled(name, want string) {
	e.Helper()
	if got := e.scheduled(name); got != want {
		e.Errorf("%s is %s\nwant %s", name, got, want)
	}
}

// OnFlyball is the state of a pod for [Env.WantScheduled] that runs on the node of the control plane.
const OnFlyball = `Running on "flyball"`
