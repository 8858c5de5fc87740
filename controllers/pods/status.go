package pods

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// status returns the status of a pod on the node. Unchanged conditions and containers keep their times.
//
//upstream:pkg/kubelet.Kubelet.generateAPIPodStatus
func (c *containers) status(given provision, o *Options) corev1.PodStatus {
	ip := given.ip
	s := *c.pod.Status.DeepCopy()
	s.ObservedGeneration = c.pod.Generation
	s.HostIP, s.HostIPs = given.hostIP, []corev1.HostIP{{IP: given.hostIP}}
	if s.StartTime == nil {
		s.StartTime = &c.now
	}
	s.PodIP, s.PodIPs = "", nil
	if ip != "" {
		s.PodIP, s.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	c.started = c.started && ip != ""
	initialized := true
	switch {
	case restartsAll(c.pod, &c.pod.Status):
		c.reset(&s)
	case c.waitsAfterReset():
	default:
		s.InitContainerStatuses, s.ContainerStatuses, initialized = c.statuses()
	}
	completed := completed(c.pod, &s)
	s.EphemeralContainerStatuses = c.ephemeralStatuses(completed)
	if completed {
		c.complete(&s)
	}
	s.Phase = phaseOf(c.pod, &s, initialized)
	terminated := s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
	running := anyRuns(&s) || c.live("")
	if terminated && !running {
		c.settle(&s)
	}

	c.setCondition(&s, corev1.PodScheduled, true, "", "")
	const sandboxReady = corev1.PodReadyToStartContainers
	switch {
	case ip == "":
		c.setCondition(&s, sandboxReady, false, failedCreatePodSandBox, o.noAddress())
	case terminated && !running:
		c.setCondition(&s, sandboxReady, false, podSandboxNotReady, "pod sandbox is not ready")
	case !c.started:
		c.setCondition(&s, sandboxReady, false, podSandboxNotReady, "no pod sandbox exists")
	default:
		c.setCondition(&s, sandboxReady, true, "", "")
	}
	kind, ok, reason, message := initializedCondition(c.pod, &s)
	c.setCondition(&s, kind, ok, reason, message)
	c.setReady(&s)
	if terminated && running {
		s.Phase = c.pod.Status.Phase // until the others have stopped
	}
	c.setAllRestarting(&s)
	c.setPodResources(&s)
	c.setResize(&s, given.deferred, podstate.Finished(&corev1.Pod{Status: s}))
	setScriptCondition(&s, given.invalid, c)
	return s
}

// ScriptValid is the condition of a pod with a script that is invalid. Its status is False, and its message has the error. The status is
// Unknown if the script names a container that the pod does not have: it may become an ephemeral container.
const ScriptValid corev1.PodConditionType = "flyball.dev/ScriptValid"

// The reasons of [ScriptValid], and of its events.
const (
	invalidScript    = "InvalidScript"
	unknownContainer = "UnknownContainer"
)

// setScriptCondition sets the condition [ScriptValid] if a script is invalid, and removes it otherwise.
func setScriptCondition(s *corev1.PodStatus, invalid error, c *containers) {
	if unknown := (*unknownContainerError)(nil); errors.As(invalid, &unknown) {
		podstate.SetCondition(s, corev1.PodCondition{Type: ScriptValid, Status: corev1.ConditionUnknown, Reason: unknownContainer, Message: unknown.text,
			LastTransitionTime: c.now, ObservedGeneration: c.pod.Generation})
		return
	}
	if invalid != nil {
		c.setCondition(s, ScriptValid, false, invalidScript, invalid.Error())
		return
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(p corev1.PodCondition) bool { return p.Type == ScriptValid })
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
	for i := range pod.Spec.Containers {
		if name := pod.Spec.Containers[i].Name; !find(s.ContainerStatuses, name).Ready {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return false, "ContainersNotReady", fmt.Sprintf("containers with unready status: %v", names)
	}
	return true, "", ""
}

// phaseOf returns the phase, which follows from the containers: a pod is Pending until all have started once, and Running
// until all have terminated for good. Sidecars that have terminated do not count.
//
//upstream:pkg/kubelet.getPhase
func phaseOf(pod *corev1.Pod, s *corev1.PodStatus, initialized bool) corev1.PodPhase {
	running, ended, failed, notInitialized := 0, 0, false, false
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		if podstate.IsSidecar(spec) && find(s.InitContainerStatuses, spec.Name).State.Running != nil {
			running++
		}
		notInitialized = notInitialized || hasFailed(spec, s.InitContainerStatuses)
	}
	if notInitialized && running == 0 {
		return corev1.PodFailed // sidecars have been stopped
	}
	for _, c := range s.ContainerStatuses {
		switch {
		case c.State.Waiting != nil && c.LastTerminationState.Terminated == nil:
			return corev1.PodPending
		case c.State.Running != nil:
			running++
		case c.State.Terminated != nil:
			spec := podstate.Container(&pod.Spec, c.Name)
			if spec != nil && demandsAll(spec, c.State.Terminated.ExitCode) {
				continue // it is about to restart
			}
			ended++
			failed = failed || c.State.Terminated.ExitCode != 0
		}
	}
	switch {
	case !initialized:
		return corev1.PodPending
	case running > 0 || ended < len(pod.Spec.Containers):
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
