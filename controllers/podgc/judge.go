package podgc

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
)

// verdict is why a pod is to be deleted.
type verdict int

const (
	keep        verdict = iota
	orphaned            // its node does not exist
	unscheduled         // it was deleted before it was bound
	stranded            // it was deleted, and its node is out of service
	tooMany             // it has terminated, and more pods since than are kept
)

func (v verdict) String() string {
	return [...]string{"", "node no longer exists", "terminating and not scheduled", "terminating on a node that is out of service", "too many terminated pods"}[v]
}

// judge returns whether a pod is to be deleted, and why. node is nil if the pod has none, or if it does not
// exist, which has been known for the time missing. If the pod is kept only for now, after is for how long.
func judge(pod *corev1.Pod, node *corev1.Node, missing time.Duration) (_ verdict, after time.Duration) {
	terminating := pod.DeletionTimestamp != nil
	switch {
	case terminating && removed(pod):
		return keep, 0
	case pod.Spec.NodeName == "" && terminating:
		return unscheduled, 0
	case pod.Spec.NodeName == "":
		return keep, 0
	case node == nil && missing < Quarantine:
		return keep, Quarantine - missing
	case node == nil:
		return orphaned, 0
	case terminating && outOfService(node):
		return stranded, 0
	default:
		return keep, 0
	}
}

// removed reports whether a pod was deleted already and only has finalizers left.
func removed(pod *corev1.Pod) bool {
	return podstate.Finished(pod) && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

// outOfService reports whether a node is not ready and has the out-of-service taint.
func outOfService(node *corev1.Node) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return !ready && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// fail sets the phase of a pod to Failed and, if it is orphaned, the condition DisruptionTarget.
func fail(pod *corev1.Pod, why verdict, now time.Time) {
	pod.Status.Phase, pod.Status.ObservedGeneration = corev1.PodFailed, pod.Generation
	if why != orphaned {
		return
	}
	c := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
		ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(old corev1.PodCondition) bool {
		if old.Type == c.Type && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		return old.Type == c.Type
	})
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// firstToGo orders terminated pods for deletion: evicted ones first, then the oldest.
func firstToGo(a, b corev1.Pod) int {
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
