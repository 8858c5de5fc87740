package pods

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
)

// failedCreatePodSandBox is the reason, as from kubelet, for a pod that cannot start without an
// address.
//
//upstream:pkg/kubelet/events.FailedCreatePodSandBox
const failedCreatePodSandBox = "FailedCreatePodSandBox"

// statusOf returns the status of a pod on the node. started is whether the delay before its containers
// start has passed and its volumes are there. Conditions and containers that do
// not change keep their times.
//
//upstream:pkg/kubelet.Kubelet.generateAPIPodStatus
func statusOf(pod *corev1.Pod, started bool, given provision, o *Options, at time.Time) corev1.PodStatus {
	now, ip := metav1.NewTime(at), given.ip
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	s.HostIP, s.HostIPs = NodeIP, []corev1.HostIP{{IP: NodeIP}}
	if s.StartTime == nil {
		s.StartTime = &now
	}
	s.PodIP, s.PodIPs = "", nil
	if ip != "" {
		s.PodIP, s.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	started = started && ip != ""
	c := containers{pod: pod, started: started, missingImages: o.missingImages(), config: given.config, now: now}
	var initialized bool
	s.InitContainerStatuses, s.ContainerStatuses, initialized = c.statuses()
	s.EphemeralContainerStatuses = c.ephemeralStatuses(initialized)
	s.Phase = phaseOf(pod, &s, initialized)
	terminated := s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed

	set := func(kind corev1.PodConditionType, ok bool, reason, message string) {
		podstate.SetCondition(&s, corev1.PodCondition{
			Type: kind, Status: conditionStatus(ok), Reason: reason, Message: message, LastTransitionTime: now,
			ObservedGeneration: pod.Generation,
		})
	}
	set(corev1.PodScheduled, true, "", "")
	if ip == "" {
		set(corev1.PodReadyToStartContainers, false, failedCreatePodSandBox, o.noAddress())
	} else {
		set(corev1.PodReadyToStartContainers, started && !terminated, "", "")
	}
	if initialized {
		set(corev1.PodInitialized, true, "", "")
	} else {
		set(corev1.PodInitialized, false, "ContainersNotInitialized", "")
	}
	ready, reason, message := true, "", ""
	if terminated {
		ready, reason = false, "PodCompleted"
	} else if names := unreadyIn(s.ContainerStatuses); len(names) > 0 {
		ready, reason, message = false, "ContainersNotReady", fmt.Sprintf("containers with unready status: %v", names)
	}
	set(corev1.ContainersReady, ready, reason, message)
	if ready && !readinessGatesPass(pod) {
		ready, reason = false, "ReadinessGatesNotReady"
	}
	set(corev1.PodReady, ready, reason, message)
	return s
}

// unreadyIn returns the names of the containers that are not ready.
func unreadyIn(list []corev1.ContainerStatus) (names []string) {
	for i := range list {
		if !list[i].Ready {
			names = append(names, list[i].Name)
		}
	}
	return names
}

// phaseOf returns the phase, which follows from the containers: a pod is Pending until all have
// started once, and Running until all have terminated.
//
//upstream:pkg/kubelet.getPhase
func phaseOf(pod *corev1.Pod, s *corev1.PodStatus, initialized bool) corev1.PodPhase {
	terminated, failed := 0, false
	for _, c := range s.ContainerStatuses {
		switch {
		case c.State.Waiting != nil && c.LastTerminationState.Terminated == nil:
			return corev1.PodPending
		case c.State.Terminated != nil:
			terminated++
			failed = failed || c.State.Terminated.ExitCode != 0
		}
	}
	switch {
	case !initialized:
		return corev1.PodPending
	case terminated < len(pod.Spec.Containers):
		return corev1.PodRunning
	case failed:
		return corev1.PodFailed
	default:
		return corev1.PodSucceeded
	}
}

// readinessGatesPass reports whether the conditions of all readiness gates are true.
func readinessGatesPass(pod *corev1.Pod) bool {
	for _, gate := range pod.Spec.ReadinessGates {
		if c := podstate.Condition(pod, gate.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return false
		}
	}
	return true
}

// conditionStatus returns True or False.
func conditionStatus(ok bool) corev1.ConditionStatus {
	if ok {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}
