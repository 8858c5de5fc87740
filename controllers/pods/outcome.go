package pods

import (
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
)

// outcome is the behaviour of a container after its start. With the zero value the container runs and is ready.
type outcome struct {
	unready    bool // it is not ready while it runs
	terminates bool
	after      time.Duration // how long it runs before it terminates
	exitCode   int32
}

// outcomeOf returns the outcome in the annotations of a pod. It ignores invalid values.
func outcomeOf(pod *corev1.Pod) outcome {
	code, err := strconv.ParseUint(pod.Annotations[ExitCodeAnnotation], 10, 8)
	hasCode := err == nil && code > 0
	o, value := outcome{}, pod.Annotations[OutcomeAnnotation]
	switch {
	case value == Running:
		return o
	case value == NeverReady:
		return outcome{unready: true}
	case value == Failed || value != Succeeded && hasCode:
		o.terminates, o.exitCode = true, 1
		if hasCode {
			o.exitCode = int32(code)
		}
	case value == Succeeded || isOfJob(pod):
		o.terminates = true
	}
	if d, err := time.ParseDuration(pod.Annotations[DurationAnnotation]); err == nil && o.terminates {
		o.after = d
	}
	return o
}

// isOfJob reports whether the pod's controller is a Job.
func isOfJob(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && ref.Kind == "Job" && ref.APIVersion == batchv1.SchemeGroupVersion.String()
}

// statusUnknownReason is the reason of a container that did not exist when its pod ended.
//
//upstream:pkg/kubelet/container.ContainerReasonStatusUnknown
const statusUnknownReason = "ContainerStatusUnknown"

// untilChange returns the time until a container of a pod with this status terminates or is
// restarted, or zero.
func untilChange(pod *corev1.Pod, status *corev1.PodStatus, now time.Time) (after time.Duration) {
	out := outcomeOf(pod)
	for i := range status.ContainerStatuses {
		s, left := &status.ContainerStatuses[i], time.Duration(0)
		switch {
		case s.State.Running != nil && out.terminates:
			left = s.State.Running.StartedAt.Add(out.after).Sub(now)
		case crashed(s):
			left = untilRestart(s, now)
		default:
			continue
		}
		if left = max(left, time.Millisecond); after == 0 || left < after {
			after = left
		}
	}
	return after
}

// killedStatus returns the status of a pod on the node after its containers were stopped. The containers end with the
// exit code of a process that does not handle SIGTERM.
//
//upstream:pkg/kubelet/status.manager.TerminatePod
func killedStatus(pod *corev1.Pod, at time.Time) corev1.PodStatus {
	now := metav1.NewTime(at)
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			c := &list[i]
			switch {
			case c.State.Running != nil:
				c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error",
					StartedAt: c.State.Running.StartedAt, FinishedAt: now, ContainerID: c.ContainerID}}
			case crashed(c):
				c.State, c.LastTerminationState = c.LastTerminationState, corev1.ContainerState{}
			case c.State.Terminated == nil:
				c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137,
					Reason: statusUnknownReason, Message: "The container could not be located when the pod was terminated",
					FinishedAt: now}}
			}
			c.Ready, c.Started = false, new(bool)
		}
	}
	s.Phase = corev1.PodFailed
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.ContainersReady, corev1.PodReady} {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: now,
			ObservedGeneration: pod.Generation}
		if kind == corev1.PodReadyToStartContainers {
			c.Reason, c.Message = podSandboxNotReady, "pod sandbox is not ready"
		} else {
			c.Reason = "PodFailed"
		}
		podstate.SetCondition(&s, c)
	}
	return s
}
