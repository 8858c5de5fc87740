package pods

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// statusOf returns the status of a pod. started reports whether the delay before the start of its containers has passed.
func statusOf(pod *corev1.Pod, started bool, given provision, o *Options, at time.Time) corev1.PodStatus {
	if given.script == nil {
		given.script, _ = scriptOf(pod)
	}
	c := newContainers(pod, given, o, at)
	c.started = started
	return c.status(given, o)
}
