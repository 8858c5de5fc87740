package pods

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// containerEvent is an event about one container of a pod, or about the pod if it has no field
// path.
type containerEvent struct {
	fieldPath         string
	typ, reason, note string
}

// recordEvents records events about a pod and its containers.
func recordEvents(r record.EventRecorder, pod *corev1.Pod, events []containerEvent) {
	for _, e := range events {
		r.Event(&corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.ResourceVersion, FieldPath: e.fieldPath,
		}, e.typ, e.reason, e.note)
	}
}

// endingEvents returns the events of a pod that ends, and its containers that are stopped. why is nil if its main containers have
// ended by themselves.
//
//upstream:pkg/kubelet/eviction.managerImpl.evictPod
func endingEvents(pod *corev1.Pod, why *ending, stopped []string) []containerEvent {
	events := killingEvents(pod, stopped)
	switch {
	case why == nil || why.reason == "":
		return events
	case why.reason == deadlineExceeded:
		return append(overdueEvents(), events...)
	default:
		return append([]containerEvent{{typ: corev1.EventTypeWarning, reason: why.reason, note: why.message}}, events...)
	}
}

// statusEvents returns the events of a change of the statuses of a pod's containers, except BackOff.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.SyncPod
func statusEvents(pod *corev1.Pod, status *corev1.PodStatus) []containerEvent {
	var events []containerEvent
	was := condition(&pod.Status, corev1.PodReadyToStartContainers)
	is := condition(status, corev1.PodReadyToStartContainers)
	if is.Reason == failedCreatePodSandBox && was.Reason != failedCreatePodSandBox {
		events = append(events, containerEvent{"", corev1.EventTypeWarning, failedCreatePodSandBox, is.Message})
	}
	if invalid := condition(status, ScriptValid); invalid.Message != "" && invalid.Message != condition(&pod.Status, ScriptValid).Message {
		events = append(events, containerEvent{"", corev1.EventTypeWarning, invalid.Reason, invalid.Message})
	}
	before, pulled := allContainers(&pod.Status), map[string]bool{}
	for spec, is := range statusesOf(pod, status) {
		was := find(before, spec.Name)
		events = append(events, containerEvents(spec, fieldPath(pod, spec.Name), &was, is, pulled)...)
	}
	return append(events, resizeEvents(pod, status)...)
}

// backOffEvents returns the events of the containers that are in a back-off since a change of their statuses: they have crashed, or they are
// sidecars that have succeeded and wait.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.doBackOff
func backOffEvents(pod *corev1.Pod, status *corev1.PodStatus, waits []string) (events []containerEvent) {
	if completed(pod, status) {
		return nil
	}
	before := allContainers(&pod.Status)
	for spec, is := range statusesOf(pod, status) {
		was := find(before, spec.Name)
		if (crashed(is) || slices.Contains(waits, spec.Name)) && (is.RestartCount > was.RestartCount || !backsOff(spec, &was)) {
			events = append(events, containerEvent{fieldPath(pod, spec.Name), corev1.EventTypeWarning, "BackOff",
				fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", spec.Name, pod.Name, pod.Namespace, pod.UID)})
		}
	}
	return events
}

// killingEvents returns the events of containers that are stopped.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.killContainer
func killingEvents(pod *corev1.Pod, containers []string) []containerEvent {
	var events []containerEvent
	for _, name := range containers {
		events = append(events, containerEvent{fieldPath(pod, name), corev1.EventTypeNormal, "Killing", "Stopping container " + name})
	}
	return events
}

// containerEvents returns the events of a change of a container's status. pulled are the images that containers before it have pulled, to
// which it adds its own.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.startContainer
//upstream:pkg/kubelet/images.imageManager.EnsureImageExists
func containerEvents(spec *corev1.Container, at string, was, is *corev1.ContainerStatus, pulled map[string]bool) []containerEvent {
	var events []containerEvent
	add := func(typ, reason, format string, args ...any) {
		events = append(events, containerEvent{at, typ, reason, fmt.Sprintf(format, args...)})
	}
	const normal, warning = corev1.EventTypeNormal, corev1.EventTypeWarning
	starts := is.RestartCount - was.RestartCount
	if w := is.State.Waiting; w != nil && !crashed(is) && !postStartFailed(is) {
		if was.State.Waiting != nil && *was.State.Waiting == *w {
			return events
		}
		switch w.Reason {
		case errImagePull:
			add(normal, "Pulling", "Pulling image %q", spec.Image)
			add(warning, "Failed", "Failed to pull image %q: %s", spec.Image, w.Message)
		case imagePullBackOff:
			add(normal, "BackOff", "Back-off pulling image %q", spec.Image)
		case errImageNeverPull:
			add(warning, errImageNeverPull, "%s", w.Message)
		case createContainerConfigError:
			add(warning, "Failed", "Error: %s", w.Message)
			return events
		default:
			return events
		}
		add(warning, "Failed", "Error: %s", w.Reason)
		return events
	}
	if was.State.Running == nil && was.State.Terminated == nil && !crashed(was) && !postStartFailed(was) {
		starts++ // the first one
	}
	failed := was.State.Waiting != nil && failsToPull(was.State.Waiting.Reason) && was.Image == is.Image
	for range starts {
		if failed && !pulled[spec.Image] || spec.ImagePullPolicy == corev1.PullAlways {
			pulled[spec.Image] = true
			add(normal, "Pulling", "Pulling image %q", spec.Image)
			add(normal, "Pulled", "Successfully pulled image %q in 0s (0s including waiting). Image size: 0 bytes.", spec.Image)
		} else {
			add(normal, "Pulled", "Container image %q already present on machine and can be accessed by the pod", spec.Image)
		}
		add(normal, "Created", "Container created")
		add(normal, "Started", "Container started")
	}
	return events
}

// fieldPath returns the field path of a container.
//
//upstream:pkg/kubelet/container.fieldPath
func fieldPath(pod *corev1.Pod, name string) string {
	switch {
	case isMain(pod, name):
		return "spec.containers{" + name + "}"
	case isInit(pod, name):
		return "spec.initContainers{" + name + "}"
	default:
		return "spec.ephemeralContainers{" + name + "}"
	}
}

// find returns the status of a container, or the zero value.
//
//upstream:pkg/api/v1/pod.GetExistingContainerStatus
func find(all []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// condition returns a condition, or the zero value.
func condition(s *corev1.PodStatus, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}
