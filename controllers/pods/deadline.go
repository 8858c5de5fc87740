package pods

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The reason and the message of a pod after its active deadline.
const (
	//upstream:pkg/kubelet.reason
	deadlineExceeded = "DeadlineExceeded"
	//upstream:pkg/kubelet.message
	deadlineExceededMessage = "Pod was active on the node longer than the specified deadline"
)

// untilDeadline returns the time until the active deadline of a pod with this status passes. ok is
// false if it has none.
//
//upstream:pkg/kubelet.activeDeadlineHandler.pastActiveDeadline
func untilDeadline(pod *corev1.Pod, s *corev1.PodStatus, now time.Time) (left time.Duration, ok bool) {
	seconds := pod.Spec.ActiveDeadlineSeconds
	if seconds == nil || s.StartTime == nil {
		return 0, false
	}
	return s.StartTime.Add(time.Duration(*seconds) * time.Second).Sub(now), true
}

// overdue returns the end of a pod after its active deadline.
//
//upstream:pkg/kubelet.activeDeadlineHandler.ShouldEvict
func overdue(pod *corev1.Pod, now time.Time, left time.Duration) ending {
	return ending{since: now.Add(left), grace: gracePeriod(pod), reason: deadlineExceeded, message: deadlineExceededMessage}
}

// overdueEvents returns the events that kubelet records when the active deadline of a pod has passed, before it stops the
// containers.
func overdueEvents() []containerEvent {
	return []containerEvent{{typ: corev1.EventTypeNormal, reason: deadlineExceeded, note: deadlineExceededMessage}}
}
