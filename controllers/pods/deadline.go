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

// overdue returns the end of a pod with this status by its active deadline, or nil if it has none.
//
//upstream:pkg/kubelet.activeDeadlineHandler.pastActiveDeadline
//upstream:pkg/kubelet.activeDeadlineHandler.ShouldEvict
func overdue(pod *corev1.Pod, s *corev1.PodStatus) *ending {
	seconds := pod.Spec.ActiveDeadlineSeconds
	if seconds == nil || s.StartTime == nil {
		return nil
	}
	return &ending{since: s.StartTime.Add(time.Duration(*seconds) * time.Second), grace: gracePeriod(pod),
		reason: deadlineExceeded, message: deadlineExceededMessage}
}

// overdueEvents returns the events that kubelet records when the active deadline of a pod has passed, before it stops the
// containers.
func overdueEvents() []containerEvent {
	return []containerEvent{{typ: corev1.EventTypeNormal, reason: deadlineExceeded, note: deadlineExceededMessage}}
}
