package podstate

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Terminating reports whether the pod is being deleted and has not terminated.
//
//upstream:pkg/controller.IsPodTerminating
func Terminating(pod *corev1.Pod) bool { return !Finished(pod) && pod.DeletionTimestamp != nil }

// CompareForDeletion orders active pods as kube-controller-manager deletes the pods of a Job: pods that are not bound, not
// running or not ready first, and then pods that became ready last, were restarted most, or are the newest.
//
//upstream:pkg/controller.ActivePods
func CompareForDeletion(a, b *corev1.Pod) int {
	return cmp.Or(
		compareProgress(a, b),
		readySince(b).Compare(readySince(a)),
		compareRestarts(a, b),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
	)
}

// CompareForDeletionFromNodes orders active pods as kube-controller-manager deletes the pods of a ReplicaSet. Unlike
// [CompareForDeletion], it considers the cost of a deletion and how many related pods are on the node of a pod, and ages
// of the same magnitude are equal, so that the order of the UIDs decides.
//
//upstream:pkg/controller.ActivePodsWithRanks
func CompareForDeletionFromNodes(a, b *corev1.Pod, onNode map[string]int, now time.Time) int {
	return cmp.Or(
		compareProgress(a, b),
		cmp.Compare(deletionCost(a), deletionCost(b)),
		cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
		compareAges(a, b, readySince(a), readySince(b), now),
		compareRestarts(a, b),
		compareAges(a, b, a.CreationTimestamp.Time, b.CreationTimestamp.Time, now),
	)
}

// compareProgress orders pods that are not bound, not running or not ready before others.
func compareProgress(a, b *corev1.Pod) int {
	return cmp.Or(
		compareBool(a.Spec.NodeName != "", b.Spec.NodeName != ""),
		cmp.Compare(phase(a), phase(b)),
		compareBool(Ready(a), Ready(b)),
	)
}

// compareAges orders pods from the newest to the oldest, by the times of their beginning.
//
//upstream:pkg/controller.logarithmicRankDiff
func compareAges(a, b *corev1.Pod, beginOfA, beginOfB, now time.Time) int {
	switch {
	case beginOfA.Equal(beginOfB):
		return 0
	case beginOfA.IsZero() || beginOfB.IsZero():
		return compareBool(!beginOfA.IsZero(), !beginOfB.IsZero())
	}
	return cmp.Or(
		cmp.Compare(magnitude(now.Sub(beginOfA)), magnitude(now.Sub(beginOfB))),
		cmp.Compare(a.UID, b.UID),
	)
}

// magnitude returns the logarithm of an age.
func magnitude(age time.Duration) int64 {
	if age <= 0 {
		return -1
	}
	return int64(math.Log2(float64(age)))
}

// compareRestarts orders pods that were restarted most before others.
//
//upstream:pkg/controller.compareMaxContainerRestarts
func compareRestarts(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(restarts(b), restarts(a)), cmp.Compare(sidecarRestarts(b), sidecarRestarts(a)))
}

// deletionCost returns the value of the annotation for it. A value that is not valid is 0.
//
//upstream:pkg/apis/core/helper.GetDeletionCostFromPodAnnotations
func deletionCost(p *corev1.Pod) int64 {
	value := p.Annotations[corev1.PodDeletionCost]
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || value[0] == '+' || value[0] == '0' && value != "0" {
		return 0
	}
	return n
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
