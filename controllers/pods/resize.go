package pods

import (
	"encoding/json"
	"fmt"

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

// resizeEvents returns the event that kubelet records when it has resized a pod.
func resizeEvents(pod *corev1.Pod) []containerEvent {
	type allocation struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var summary struct {
		InitContainers []allocation `json:"initContainers,omitempty"`
		Containers     []allocation `json:"containers,omitempty"`
		Generation     int64        `json:"generation"`
	}
	resized := false
	collect := func(specs []corev1.Container, statuses []corev1.ContainerStatus) (all []allocation) {
		for i := range specs {
			old := find(statuses, specs[i].Name)
			resized = resized || isResized(&old, &specs[i])
			all = append(all, allocation{specs[i].Name, specs[i].Resources})
		}
		return all
	}
	summary.InitContainers = collect(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	summary.Containers = collect(pod.Spec.Containers, pod.Status.ContainerStatuses)
	summary.Generation = pod.Generation
	if !resized {
		return nil
	}
	text, err := json.Marshal(summary)
	if err != nil {
		return nil // there is no such summary
	}
	return []containerEvent{{typ: corev1.EventTypeNormal, reason: "ResizeCompleted", note: fmt.Sprintf("Pod resize completed: %s", text)}}
}
