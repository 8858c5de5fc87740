package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amounts are resources by name, in whole units; CPU in thousandths.
type amounts map[corev1.ResourceName]int64

// need is how much a pod requests of one resource.
type need struct {
	name   corev1.ResourceName
	amount int64
}

func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

func (a amounts) add(list corev1.ResourceList) {
	for name, q := range list {
		a[name] += amount(name, q)
	}
}

// atLeast raises what is less than in b.
func (a amounts) atLeast(b amounts) {
	for name, n := range b {
		a[name] = max(a[name], n)
	}
}

// requests are the effective requests of a pod, sorted by name: the larger of the sum over its containers
// and the maximum over its init containers, where sidecars (init containers that are always restarted)
// count from their start on. Pod-level requests replace those of the containers. The overhead is added.
func requests(spec *corev1.PodSpec) []need {
	total := amounts{}
	for i := range spec.Containers {
		total.add(spec.Containers[i].Resources.Requests)
	}
	if len(spec.InitContainers) > 0 {
		sidecars, start := amounts{}, amounts{}
		for i := range spec.InitContainers {
			c := &spec.InitContainers[i]
			running := maps.Clone(sidecars)
			running.add(c.Resources.Requests)
			start.atLeast(running)
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
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
	var needs []need
	for _, name := range slices.Sorted(maps.Keys(total)) {
		if n := total[name]; n > 0 {
			needs = append(needs, need{name, n})
		}
	}
	return needs
}
