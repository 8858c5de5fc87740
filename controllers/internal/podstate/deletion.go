package podstate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Terminating reports whether the pod is being deleted and has not terminated.
//
//upstream:pkg/controller.IsPodTerminating
func Terminating(pod *corev1.Pod) bool { return !Finished(pod) && pod.DeletionTimestamp != nil }

// CompareForDeletion orders active pods as kube-controller-manager deletes them: pods that are not
// bound, not running or not ready first, then by a cost, and then those that became ready last,
// were restarted most, or are the newest.
//
//upstream:pkg/controller.ActivePodsWithRanks
//upstream:pkg/controller.ActivePods
func CompareForDeletion(a, b *corev1.Pod, cost func(*corev1.Pod) int64) int {
	return cmp.Or(
		compareBool(a.Spec.NodeName != "", b.Spec.NodeName != ""),
		cmp.Compare(phase(a), phase(b)),
		compareBool(Ready(a), Ready(b)),
		cmp.Compare(cost(a), cost(b)),
		readySince(b).Compare(readySince(a)),
		cmp.Compare(restarts(b), restarts(a)),
		cmp.Compare(sidecarRestarts(b), sidecarRestarts(a)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
	)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// phase orders the phases of active pods.
func phase(p *corev1.Pod) int {
	return slices.Index([]corev1.PodPhase{corev1.PodPending, corev1.PodUnknown, corev1.PodRunning}, p.Status.Phase)
}

// readySince returns when a pod became ready, or the zero time if it is not ready.
//
//upstream:pkg/controller.podReadyTime
func readySince(p *corev1.Pod) time.Time {
	if !Ready(p) {
		return time.Time{}
	}
	return Condition(p, corev1.PodReady).LastTransitionTime.Time
}

// restarts returns the most restarts of a container.
//
//upstream:pkg/controller.maxContainerRestarts
func restarts(p *corev1.Pod) (n int32) {
	for _, s := range p.Status.ContainerStatuses {
		n = max(n, s.RestartCount)
	}
	return n
}

// sidecarRestarts returns the most restarts of a sidecar.
//
//upstream:pkg/controller.maxContainerRestarts
func sidecarRestarts(p *corev1.Pod) (n int32) {
	for _, s := range p.Status.InitContainerStatuses {
		if slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == s.Name && IsSidecar(&c) }) {
			n = max(n, s.RestartCount)
		}
	}
	return n
}
