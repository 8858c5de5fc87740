package pods

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
)

// failedCreatePodSandBox is the reason of a pod that cannot start without an address.
//
//upstream:pkg/kubelet/events.FailedCreatePodSandBox
const failedCreatePodSandBox = "FailedCreatePodSandBox"

// podSandboxNotReady is the reason of the condition PodReadyToStartContainers of a pod without a sandbox.
//
//upstream:pkg/kubelet/types.PodSandboxNotReadyReason
const podSandboxNotReady = "PodSandboxNotReady"

// statusOf returns the status of a pod on the node. started reports whether the delay before the start of its containers
// has passed and its volumes are mounted. Unchanged conditions and containers keep their times.
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
	switch {
	case ip == "":
		set(corev1.PodReadyToStartContainers, false, failedCreatePodSandBox, o.noAddress())
	case terminated:
		set(corev1.PodReadyToStartContainers, false, podSandboxNotReady, "pod sandbox is not ready")
	case !started:
		set(corev1.PodReadyToStartContainers, false, podSandboxNotReady, "no pod sandbox exists")
	default:
		set(corev1.PodReadyToStartContainers, true, "", "")
	}
	set(initializedCondition(pod, &s))
	ready, reason, message := containersReady(pod, &s)
	set(corev1.ContainersReady, ready, reason, message)
	if ready {
		ready, reason, message = readinessGatesPass(pod)
	}
	set(corev1.PodReady, ready, reason, message)
	return s
}

// initializedCondition returns the condition Initialized, which stays True once it is.
//
//upstream:pkg/kubelet/status.GeneratePodInitializedCondition
func initializedCondition(pod *corev1.Pod, s *corev1.PodStatus) (kind corev1.PodConditionType, ok bool, reason, message string) {
	var names []string
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		c := find(s.InitContainerStatuses, spec.Name)
		if podstate.IsSidecar(spec) && !ptr.Deref(c.Started, false) || !podstate.IsSidecar(spec) && !c.Ready {
			names = append(names, spec.Name)
		}
	}
	was := podstate.Condition(pod, corev1.PodInitialized)
	switch {
	case s.Phase == corev1.PodSucceeded:
		return corev1.PodInitialized, true, "PodCompleted", ""
	case len(names) > 0 && (was == nil || was.Status != corev1.ConditionTrue):
		return corev1.PodInitialized, false, "ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: %v", names)
	}
	return corev1.PodInitialized, true, "", ""
}

// containersReady returns the status, the reason and the message of the condition ContainersReady. Sidecars
// count too.
//
//upstream:pkg/kubelet/status.GenerateContainersReadyCondition
func containersReady(pod *corev1.Pod, s *corev1.PodStatus) (ok bool, reason, message string) {
	switch s.Phase {
	case corev1.PodSucceeded:
		return false, "PodCompleted", ""
	case corev1.PodFailed:
		return false, "PodFailed", ""
	}
	var names []string
	for i := range pod.Spec.InitContainers {
		if spec := &pod.Spec.InitContainers[i]; podstate.IsSidecar(spec) && !find(s.InitContainerStatuses, spec.Name).Ready {
			names = append(names, spec.Name)
		}
	}
	for _, c := range s.ContainerStatuses {
		if !c.Ready {
			names = append(names, c.Name)
		}
	}
	if len(names) > 0 {
		return false, "ContainersNotReady", fmt.Sprintf("containers with unready status: %v", names)
	}
	return true, "", ""
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

// readinessGatesPass returns the status, the reason and the message of the condition Ready of a pod with
// containers that are ready.
//
//upstream:pkg/kubelet/status.GeneratePodReadyCondition
func readinessGatesPass(pod *corev1.Pod) (ok bool, reason, message string) {
	var messages []string
	for _, gate := range pod.Spec.ReadinessGates {
		switch c := podstate.Condition(pod, gate.ConditionType); {
		case c == nil:
			messages = append(messages, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != corev1.ConditionTrue:
			messages = append(messages, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	if len(messages) > 0 {
		return false, "ReadinessGatesNotReady", strings.Join(messages, ", ")
	}
	return true, "", ""
}

// conditionStatus returns True or False.
func conditionStatus(ok bool) corev1.ConditionStatus {
	if ok {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}
