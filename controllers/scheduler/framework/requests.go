package framework

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"flyball.dev/controllers/internal/podstate"
)

// The requests that a container without any has for the scores, so that such pods spread too.
//
//upstream:pkg/scheduler/util.DefaultMilliCPURequest
//upstream:pkg/scheduler/util.DefaultMemoryRequest
var missingRequests = corev1.ResourceList{
	corev1.ResourceCPU:    *resource.NewMilliQuantity(100, resource.DecimalSI),
	corev1.ResourceMemory: *resource.NewQuantity(200<<20, resource.DecimalSI),
}

// podRequests returns the requests of a pod without a node. Requests of the pod, if they count, replace the requests of the
// containers. A container without a request has the one of missing. The overhead is added.
//
//upstream:k8s.io/component-helpers/resource.PodRequests
func podRequests(pod *corev1.Pod, podLevel bool, missing corev1.ResourceList) corev1.ResourceList {
	total := sum(&pod.Spec, func(c *corev1.Container) corev1.ResourceList { return withMissing(c.Resources.Requests, missing) })
	if r := pod.Spec.Resources; r != nil && podLevel {
		maps.Copy(total, r.Requests)
	}
	add(total, pod.Spec.Overhead)
	return total
}

// boundRequests returns the requests of a pod with a node. While kubelet resizes the pod, they are the largest of the
// specified, the allocated and the actual requests. A resize that is infeasible does not count.
//
//upstream:k8s.io/component-helpers/resource.PodRequests
//upstream:k8s.io/component-helpers/resource.AggregateContainerRequests
func boundRequests(pod *corev1.Pod, missing corev1.ResourceList) corev1.ResourceList {
	c := podstate.Condition(pod, corev1.PodResizePending)
	infeasible := c != nil && c.Reason == corev1.PodReasonInfeasible
	specified := func(list corev1.ResourceList) corev1.ResourceList {
		if infeasible {
			return nil
		}
		return list
	}
	of := func(get func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
		return sum(&pod.Spec, func(c *corev1.Container) corev1.ResourceList { return withMissing(get(c), missing) })
	}
	total := of(func(c *corev1.Container) corev1.ResourceList { return specified(c.Resources.Requests) })
	status := pod.Status.Resources
	if status != nil && status.Requests != nil && pod.Status.AllocatedResources != nil {
		raise(total, status.Requests)
		raise(total, pod.Status.AllocatedResources)
	} else if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) > 0 || infeasible {
		raise(total, of(func(c *corev1.Container) corev1.ResourceList {
			if s := statusOf(pod, c); s != nil && s.AllocatedResources != nil {
				return s.AllocatedResources
			}
			return specified(c.Resources.Requests)
		}))
		raise(total, of(func(c *corev1.Container) corev1.ResourceList {
			switch s := statusOf(pod, c); {
			case s != nil && s.Resources != nil && s.Resources.Requests != nil:
				return s.Resources.Requests
			case s != nil && s.AllocatedResources != nil:
				return s.AllocatedResources
			}
			return specified(c.Resources.Requests)
		}))
	}
	if r := pod.Spec.Resources; r != nil && len(r.Requests) > 0 {
		list := r.Requests
		if status != nil {
			list = maps.Clone(specified(r.Requests))
			if list == nil {
				list = corev1.ResourceList{}
			}
			raise(list, status.Requests)
			raise(list, pod.Status.AllocatedResources)
		}
		maps.Copy(total, list)
	}
	add(total, pod.Spec.Overhead)
	return total
}

// missingFor returns the requests that a container of a pod with these requests has for the scores, where it has none. Requests
// of the pod itself make up for the ones of its containers.
//
//upstream:pkg/scheduler/framework.getNonMissingContainerRequests
func missingFor(pod *corev1.Pod, requests corev1.ResourceList) corev1.ResourceList {
	if pod.Spec.Resources == nil || len(pod.Spec.Resources.Requests) == 0 {
		return missingRequests
	}
	missing := corev1.ResourceList{}
	for name, q := range missingRequests {
		if _, ok := requests[name]; !ok {
			missing[name] = q
		}
	}
	return missing
}

// withMissing returns the requests of a container, with the ones that it does not have. The list may be the
// container's own, so the caller must not change it.
//
//upstream:k8s.io/component-helpers/resource.applyNonMissing
func withMissing(list, missing corev1.ResourceList) corev1.ResourceList {
	for name := range missing {
		if _, ok := list[name]; !ok {
			all := maps.Clone(missing)
			maps.Copy(all, list)
			return all
		}
	}
	return list
}

// statusOf returns the status of a container, or nil.
func statusOf(pod *corev1.Pod, c *corev1.Container) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == c.Name {
				return &list[i]
			}
		}
	}
	return nil
}

// sum returns the larger of the sum over the containers and the maximum over the init containers. Sidecars count from their
// start on.
//
//upstream:k8s.io/component-helpers/resource.aggregateContainerResourcesByFn
func sum(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	total := corev1.ResourceList{}
	for i := range spec.Containers {
		add(total, of(&spec.Containers[i]))
	}
	if len(spec.InitContainers) == 0 {
		return total
	}
	sidecars, start := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		running := sidecars.DeepCopy()
		add(running, of(c))
		raise(start, running)
		if podstate.IsSidecar(c) {
			sidecars = running
		}
	}
	add(total, sidecars)
	raise(total, start)
	return total
}

// add adds the quantities of a list.
//
//upstream:k8s.io/component-helpers/resource.addResourceList
func add(to, list corev1.ResourceList) {
	for name, q := range list {
		n := to[name].DeepCopy()
		n.Add(q)
		to[name] = n
	}
}

// raise raises quantities to the quantities of a list, where they are less.
//
//upstream:k8s.io/component-helpers/resource.maxResourceList
func raise(to, list corev1.ResourceList) {
	for name, q := range list {
		if n, ok := to[name]; !ok || q.Cmp(n) > 0 {
			to[name] = q
		}
	}
}
