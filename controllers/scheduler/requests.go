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

// requests are what a pod needs on its node, by name: what its containers need together, or what the
// most demanding of its init containers needs while it runs, whichever is more. Init containers that
// are restarted always go on running beside all that follow. What the pod requests as a whole takes the
// place of what its containers request. The overhead comes on top.
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
