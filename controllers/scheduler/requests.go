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

// add adds the quantities of a list.
//
//upstream:k8s.io/component-helpers/resource.addResourceList
func (a quantities) add(list corev1.ResourceList) {
	for name, q := range list {
		a[name] += amount(name, q)
	}
}

// atLeast raises the quantities to those in b, where they are less.
//
//upstream:k8s.io/component-helpers/resource.maxResourceList
func (a quantities) atLeast(b quantities) {
	for name, n := range b {
		a[name] = max(a[name], n)
	}
}

// podRequests returns the effective requests of a pod, sorted by name: the larger of the sum over the containers and
// the maximum over the init containers. Sidecars count from their start on. Requests of the pod replace the requests of
// the containers. The overhead is added.
//
//upstream:k8s.io/component-helpers/resource.PodRequests
//upstream:k8s.io/component-helpers/resource.AggregateContainerRequests
func podRequests(spec *corev1.PodSpec) []request {
	total := quantities{}
	for i := range spec.Containers {
		total.add(spec.Containers[i].Resources.Requests)
	}
	if len(spec.InitContainers) > 0 {
		sidecars, start := quantities{}, quantities{}
		for i := range spec.InitContainers {
			c := &spec.InitContainers[i]
			running := maps.Clone(sidecars)
			running.add(c.Resources.Requests)
			start.atLeast(running)
			if podstate.IsSidecar(c) {
				sidecars = running
			}
		}
		for name, n := range sidecars {
			total[name] += n
		}
		total.atLeast(start)
	}
	if spec.Resources != nil {
		for name, q := range spec.Resources.Requests {
			total[name] = amount(name, q)
		}
	}
	total.add(spec.Overhead)
	var needs []request
	for _, name := range slices.Sorted(maps.Keys(total)) {
		if n := total[name]; n > 0 {
			needs = append(needs, request{name, n})
		}
	}
	return needs
}
