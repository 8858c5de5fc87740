package pods

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// resources sets the resources of a started container to the resources in its specification. A resize takes effect at
// once.
func resources(s *corev1.ContainerStatus, spec *corev1.Container) {
	all := spec.Resources
	s.Resources, s.AllocatedResources = &all, spec.Resources.Requests
}

// isResized reports whether a container that runs has other resources than its specification.
func isResized(old *corev1.ContainerStatus, spec *corev1.Container) bool {
	return old.State.Running != nil && old.Resources != nil && !equality.Semantic.DeepEqual(*old.Resources, spec.Resources)
}

// restartsOnResize reports whether a resized container restarts by the resize policy of a changed resource.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computePodResizeAction
func restartsOnResize(old *corev1.ContainerStatus, spec *corev1.Container) bool {
	if !isResized(old, spec) {
		return false
	}
	changed := func(now, was corev1.ResourceList, name corev1.ResourceName) bool {
		a, is := now[name]
		b, had := was[name]
		return is != had || a.Cmp(b) != 0
	}
	for _, p := range spec.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer &&
			(changed(spec.Resources.Requests, old.Resources.Requests, p.ResourceName) || changed(spec.Resources.Limits, old.Resources.Limits, p.ResourceName)) {
			return true
		}
	}
	return false
}

// resizing reports whether a container of a pod with this status runs with other resources than its specification.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.IsPodResizeInProgress
func resizing(pod *corev1.Pod, s *corev1.PodStatus) bool {
	for spec, status := range statusesOf(pod, s) {
		if isResized(status, spec) {
			return true
		}
	}
	return false
}

// resizeEvents returns the event that kubelet records when it has resized a pod.
func resizeEvents(pod *corev1.Pod, status *corev1.PodStatus) []containerEvent {
	if !resizing(pod, &pod.Status) || resizing(pod, status) {
		return nil
	}
	return []containerEvent{{typ: corev1.EventTypeNormal, reason: "ResizeCompleted", note: "Pod resize completed: " + resizeSummary(pod)}}
}

// resizeSummary returns the resources of a pod, in JSON.
//
//upstream:pkg/kubelet/events.makeResourceSummaryFromSpec
func resizeSummary(pod *corev1.Pod) string {
	type allocation struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var summary struct {
		InitContainers []allocation `json:"initContainers,omitempty"`
		Containers     []allocation `json:"containers,omitempty"`
		Generation     int64        `json:"generation"`
	}
	collect := func(specs []corev1.Container) (all []allocation) {
		for i := range specs {
			all = append(all, allocation{specs[i].Name, specs[i].Resources})
		}
		return all
	}
	summary.InitContainers, summary.Containers, summary.Generation = collect(pod.Spec.InitContainers), collect(pod.Spec.Containers), pod.Generation
	text, _ := json.Marshal(summary) // it has nothing that cannot be encoded
	return string(text)
}
