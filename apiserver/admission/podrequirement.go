package admission

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func requestsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }

func limitsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }

// podRequirement returns the requests or the limits of a whole pod: what its containers need
// together, sidecars included, but at least what it needs while an init container runs. Those of the
// pod itself replace the sums. Overhead is not included.
func podRequirement(pod *corev1.Pod, part func(*corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	total, sidecars, initial := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		addTo(total, part(&pod.Spec.Containers[i].Resources))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		needed := part(&c.Resources)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			addTo(total, needed)
			addTo(sidecars, needed)
			raiseTo(initial, sidecars)
			continue
		}
		running := corev1.ResourceList{}
		addTo(running, needed)
		addTo(running, sidecars)
		raiseTo(initial, running)
	}
	raiseTo(total, initial)
	if pod.Spec.Resources != nil {
		for name, quantity := range part(pod.Spec.Resources) {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				total[name] = quantity
			}
		}
	}
	return total
}

// addTo adds quantities to a list.
func addTo(list, more corev1.ResourceList) {
	for name, quantity := range more {
		sum := list[name].DeepCopy()
		sum.Add(quantity)
		list[name] = sum
	}
}

// raiseTo makes the quantities of a list at least those of another.
func raiseTo(list, least corev1.ResourceList) {
	for name, quantity := range least {
		if given, ok := list[name]; !ok || given.Cmp(quantity) < 0 {
			list[name] = quantity.DeepCopy()
		}
	}
}
