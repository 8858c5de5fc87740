package podgc

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/nodestate"
	"flyball.dev/controllers/internal/podstate"
)

// reason is the reason why a pod is deleted.
type reason int

const (
	noReason                reason = iota // it is not deleted
	orphaned                              // its node does not exist
	unscheduledTerminating                // it is terminating and was never bound
	terminatingOutOfService               // it is terminating, and its node is out of service
	overThreshold                         // it has terminated, as have more pods than are kept
)

// String returns the reason for the log.
func (r reason) String() string {
	return [...]string{"", "node no longer exists", "terminating and not scheduled",
		"terminating on a node that is out of service", "too many terminated pods"}[r]
}

// reasonToDelete returns the reason why a pod is to be deleted now. node is nil if the pod has
// none, or if the node does not exist, which has been known for the time missing. If a pod is to be
// reconciled again later, after is the time until then.
//
//upstream:pkg/controller/podgc.PodGCController.gc
func reasonToDelete(pod *corev1.Pod, node *corev1.Node, missing time.Duration) (_ reason, after time.Duration) {
	terminating := pod.DeletionTimestamp != nil
	switch {
	case terminating && awaitsFinalizers(pod):
		return noReason, 0
	case pod.Spec.NodeName == "" && terminating:
		return unscheduledTerminating, 0
	case pod.Spec.NodeName == "":
		return noReason, 0
	case node == nil && missing < Quarantine:
		return noReason, Quarantine - missing
	case node == nil:
		return orphaned, 0
	case terminating && outOfService(node):
		return terminatingOutOfService, 0
	default:
		return noReason, 0
	}
}

// awaitsFinalizers reports whether a pod was deleted already and only its finalizers are left.
func awaitsFinalizers(pod *corev1.Pod) bool {
	return podstate.Finished(pod) && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

// outOfService reports whether a node is not ready and has the out-of-service taint.
//
//upstream:pkg/controller/podgc.PodGCController.gcTerminating
func outOfService(node *corev1.Node) bool {
	return !nodestate.Ready(node) && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}

// markFailed sets the phase of a pod to Failed and, if it is orphaned, the condition
// DisruptionTarget.
//
//upstream:pkg/controller/podgc.PodGCController.markFailedAndDeletePodWithCondition
func markFailed(s *corev1.PodStatus, generation int64, why reason, now time.Time) {
	s.Phase, s.ObservedGeneration = corev1.PodFailed, generation
	if why != orphaned {
		return
	}
	podstate.SetCondition(s, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
	})
}

// compareForDeletion orders terminated pods for deletion: evicted pods first, then by age, the
// oldest first.
//
//upstream:pkg/controller/podgc.byEvictionAndCreationTimestamp
func compareForDeletion(a, b corev1.Pod) int {
	evicted := func(p *corev1.Pod) int {
		if p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Evicted" {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(evicted(&a), evicted(&b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}
