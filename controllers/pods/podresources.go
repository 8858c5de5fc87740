package pods

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/internal/quota"
)

// effectiveResources returns the requests and the limits of a pod, with its overhead: the ones of the pod as a whole, and the sums of its
// containers for the other resources.
//
//upstream:pkg/kubelet.getEffectiveAllocatedResources
func effectiveResources(pod *corev1.Pod) corev1.ResourceRequirements {
	requests, limits := quota.Requirements(&corev1.Pod{Spec: pod.Spec}) // the status does not count
	for name, q := range pod.Spec.Overhead {
		for _, list := range []corev1.ResourceList{requests, limits} {
			if sum, ok := list[name]; ok {
				sum.Add(q)
				list[name] = sum
			}
		}
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// withoutOverhead returns the amounts of the resources in a specification that a list in the status of its pod has.
func withoutOverhead(pod *corev1.Pod, specified, status corev1.ResourceList) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name := range specified {
		if q, ok := status[name]; ok {
			q = q.DeepCopy()
			q.Sub(pod.Spec.Overhead[name])
			list[name] = q
		}
	}
	return list
}

// isPodResized reports whether a pod with this status has other resources as a whole than in its specification.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.isPodLevelResourcesResizeInProgress
func isPodResized(pod *corev1.Pod, s *corev1.PodStatus) bool {
	r := pod.Spec.Resources
	return r != nil && s.Resources != nil &&
		(!equality.Semantic.DeepEqual(withoutOverhead(pod, r.Requests, s.Resources.Requests), r.Requests) ||
			!equality.Semantic.DeepEqual(withoutOverhead(pod, r.Limits, s.Resources.Limits), r.Limits))
}

// allocationOfPod returns the resources that a pod as a whole has by its status, or nil. The status lacks the allocated limits: a resize
// in progress with the requests of the specification has its limits too. A pod that has not started has the resources in the specification.
func allocationOfPod(pod *corev1.Pod, inProgress bool) *corev1.ResourceRequirements {
	r, s := pod.Spec.Resources, &pod.Status
	switch {
	case r == nil:
		return nil
	case s.Resources != nil:
		requests := withoutOverhead(pod, r.Requests, s.AllocatedResources)
		if inProgress && equality.Semantic.DeepEqual(requests, r.Requests) {
			return r
		}
		return &corev1.ResourceRequirements{Requests: requests, Limits: withoutOverhead(pod, r.Limits, s.Resources.Limits)}
	case slices.ContainsFunc(allContainers(s), func(c corev1.ContainerStatus) bool { return c.Resources != nil }):
		return nil // they are new in the specification
	}
	return r
}

// setPodResources sets the resources of a pod as a whole in its status, if its specification has some. They are the old ones until the
// containers have restarted that their resize policy restarts.
//
//upstream:pkg/kubelet.Kubelet.convertToAPIPodLevelResourcesStatus
func (c *containers) setPodResources(s *corev1.PodStatus) {
	if c.pod.Spec.Resources == nil {
		return
	}
	r := effectiveResources(c.pod)
	s.AllocatedResources = r.Requests
	if !c.podLimits || s.Resources == nil {
		s.Resources = &r
	}
}

// restartsOnPodResize reports whether a container that runs restarts for a resize of its pod as a whole. A container without a limit has
// the limit of the pod, and its resize policy counts. A container that has started since the resize has the new limit.
//
//upstream:pkg/kubelet/kuberuntime.containerResourcesFromRequirements
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computePodResizeAction
func (c *containers) restartsOnPodResize(old *corev1.ContainerStatus, spec *corev1.Container) bool {
	r, s := c.pod.Spec.Resources, &c.pod.Status
	if r == nil || s.Resources == nil || old.State.Running == nil {
		return false
	}
	progress := podstate.Condition(c.pod, corev1.PodResizeInProgress)
	if progress != nil && progress.ObservedGeneration >= c.generation && !old.State.Running.StartedAt.Before(&progress.LastTransitionTime) {
		return false
	}
	was := withoutOverhead(c.pod, r.Limits, s.Resources.Limits)
	return slices.ContainsFunc(spec.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		own, now, before := spec.Resources.Limits[p.ResourceName], r.Limits[p.ResourceName], was[p.ResourceName]
		return p.RestartPolicy == corev1.RestartContainer && own.IsZero() && now.Cmp(before) != 0
	})
}
