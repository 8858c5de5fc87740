package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"flyball.dev/controllers/internal/podstate"
)

// quantities are amounts of resources, in whole units; of CPU, in thousandths.
type quantities map[corev1.ResourceName]int64

// request is the amount of a resource that a pod requests.
type request struct {
	name   corev1.ResourceName
	amount int64
}

// amount returns a quantity in the units of quantities.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// quantitiesOf returns the quantities of a list.
func quantitiesOf(list corev1.ResourceList) quantities {
	a := quantities{}
	for name, q := range list {
		a[name] = amount(name, q)
	}
	return a
}

// podRequests returns the requests of a pod without a node, sorted by name. Requests of the pod replace the requests of the
// containers. The overhead is added.
//
//upstream:k8s.io/component-helpers/resource.PodRequests
func podRequests(pod *corev1.Pod) []request {
	total := sum(&pod.Spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	if r := pod.Spec.Resources; r != nil {
		maps.Copy(total, r.Requests)
	}
	return sorted(total, pod.Spec.Overhead)
}

// boundRequests returns the requests of a pod with a node. While kubelet resizes the pod, they are the largest of the
// specified, the allocated and the actual requests. A resize that is infeasible does not count.
//
//upstream:k8s.io/component-helpers/resource.PodRequests
//upstream:k8s.io/component-helpers/resource.AggregateContainerRequests
func boundRequests(pod *corev1.Pod) []request {
	c := podstate.Condition(pod, corev1.PodResizePending)
	infeasible := c != nil && c.Reason == corev1.PodReasonInfeasible
	specified := func(list corev1.ResourceList) corev1.ResourceList {
		if infeasible {
			return nil
		}
		return list
	}
	total := sum(&pod.Spec, func(c *corev1.Container) corev1.ResourceList { return specified(c.Resources.Requests) })
	status := pod.Status.Resources
	if status != nil && status.Requests != nil && pod.Status.AllocatedResources != nil {
		raise(total, status.Requests)
		raise(total, pod.Status.AllocatedResources)
	} else {
		raise(total, sum(&pod.Spec, func(c *corev1.Container) corev1.ResourceList {
			if s := statusOf(pod, c); s != nil && s.AllocatedResources != nil {
				return s.AllocatedResources
			}
			return specified(c.Resources.Requests)
		}))
		raise(total, sum(&pod.Spec, func(c *corev1.Container) corev1.ResourceList {
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
	return sorted(total, pod.Spec.Overhead)
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

// sorted returns the requests of a list, with the overhead, sorted by name.
func sorted(list, overhead corev1.ResourceList) []request {
	add(list, overhead)
	var needs []request
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if n := amount(name, list[name]); n > 0 {
			needs = append(needs, request{name, n})
		}
	}
	return needs
}
