package pods

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/reconcile"
)

// resizeRetry is the time until a resize that has to wait is tried again, if nothing else happens on the node.
//
//upstream:pkg/kubelet/allocation.retryDelay
const resizeRetry = 3 * time.Minute

// noteDeferral notes whether the resize of a pod has to wait.
func (r *reconciler) noteDeferral(key types.NamespacedName, deferred bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if deferred {
		r.deferred[key] = true
	} else {
		delete(r.deferred, key)
	}
}

// retryDeferred enqueues the pods with resizes that have to wait, after a pod has released resources.
func (r *reconciler) retryDeferred() {
	r.mu.Lock()
	queue := r.queue
	waiting := slices.Collect(maps.Keys(r.deferred))
	r.mu.Unlock()
	for _, key := range waiting {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
}

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
	return isPodResized(pod, s)
}

// setResize sets the conditions of a resize of a pod, and removes the ones that do not apply. deferred says why the
// resize in its specification has to wait, perhaps while the one before is in progress.
//
//upstream:pkg/kubelet/status.manager.SetPodResizePendingCondition
//upstream:pkg/kubelet/status.manager.SetPodResizeInProgressCondition
//upstream:pkg/kubelet.Kubelet.determinePodResizeStatus
func (c *containers) setResize(s *corev1.PodStatus, deferred string, ended bool) {
	progress := condition(s, corev1.PodResizeInProgress)
	s.Conditions = slices.DeleteFunc(s.Conditions, func(p corev1.PodCondition) bool {
		return p.Type == corev1.PodResizeInProgress || p.Type == corev1.PodResizePending && (ended || deferred == "")
	})
	if ended {
		return
	}
	if deferred != "" {
		c.setCondition(s, corev1.PodResizePending, true, corev1.PodReasonDeferred, deferred)
	}
	switch {
	case !resizing(c.pod, s):
	case progress.Type != "" && progress.ObservedGeneration >= c.generation:
		s.Conditions = append(s.Conditions, progress) // of the generation with which it began
	default:
		c.setCondition(s, corev1.PodResizeInProgress, true, "", "")
		if c.generation != 0 {
			s.Conditions[len(s.Conditions)-1].ObservedGeneration = c.generation // a later resize may have to wait
		}
	}
}

// resizeEvents returns the events of a resize: it has to wait, it starts, or it has completed.
//
//upstream:pkg/kubelet/allocation.manager.handlePodResourcesResize
func resizeEvents(pod *corev1.Pod, status *corev1.PodStatus) (events []containerEvent) {
	add := func(typ, reason, what string, generation int64, err string) {
		events = append(events, containerEvent{typ: typ, reason: reason, note: "Pod resize " + what + ": " + resizeSummary(pod, generation, err)})
	}
	progress := condition(&pod.Status, corev1.PodResizeInProgress)
	was, is := condition(&pod.Status, corev1.PodResizePending), condition(status, corev1.PodResizePending)
	if is.Type != "" {
		if was.Reason != is.Reason || was.ObservedGeneration != is.ObservedGeneration {
			add(corev1.EventTypeWarning, "ResizeDeferred", is.Reason, is.ObservedGeneration, is.Message)
		}
		if progress.Type != "" && condition(status, corev1.PodResizeInProgress).Type == "" {
			add(corev1.EventTypeNormal, "ResizeCompleted", "completed", progress.ObservedGeneration, "")
		}
		return events
	}
	if !resizing(pod, &pod.Status) {
		return nil
	}
	if now := condition(status, corev1.PodResizeInProgress); progress.Type == "" || now.ObservedGeneration > progress.ObservedGeneration {
		progress.ObservedGeneration = cmp.Or(now.ObservedGeneration, pod.Generation)
		add(corev1.EventTypeNormal, "ResizeStarted", "started", progress.ObservedGeneration, "")
	}
	if !resizing(pod, status) {
		add(corev1.EventTypeNormal, "ResizeCompleted", "completed", progress.ObservedGeneration, "")
	}
	return events
}

// resizeSummary returns the resources of a pod, in JSON, with the error of a resize or "".
//
//upstream:pkg/kubelet/events.makeResourceSummaryFromSpec
func resizeSummary(pod *corev1.Pod, generation int64, err string) string {
	type allocation struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var summary struct {
		InitContainers []allocation `json:"initContainers,omitempty"`
		Containers     []allocation `json:"containers,omitempty"`
		Generation     int64        `json:"generation"`
		Error          string       `json:"error,omitempty"`
	}
	collect := func(specs []corev1.Container) (all []allocation) {
		for i := range specs {
			all = append(all, allocation{specs[i].Name, specs[i].Resources})
		}
		return all
	}
	summary.InitContainers, summary.Containers, summary.Generation = collect(pod.Spec.InitContainers), collect(pod.Spec.Containers), generation
	summary.Error = err
	text, _ := json.Marshal(summary) // it has nothing that cannot be encoded
	return string(text)
}
