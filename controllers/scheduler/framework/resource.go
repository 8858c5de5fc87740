package framework

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Resource is an amount of each resource: of CPU in thousandths, of all others in whole units.
//
//upstream:pkg/scheduler/framework.Resource
type Resource struct {
	MilliCPU, Memory, EphemeralStorage, Pods int64
	// Scalar has the extended resources, huge pages and the like.
	Scalar map[corev1.ResourceName]int64
}

// newResource returns the amounts of a list.
//
//upstream:pkg/scheduler/framework.Resource.Add
func newResource(list corev1.ResourceList) Resource {
	r := Resource{}
	for name, q := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = q.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = q.Value()
		case corev1.ResourcePods:
			r.Pods = q.Value()
		default:
			if isScalar(name) {
				r.addScalar(name, q.Value())
			}
		}
	}
	return r
}

// isScalar reports whether a resource is one that a scheduler counts without knowing its meaning.
//
//upstream:pkg/scheduler/util.IsScalarResourceName
func isScalar(name corev1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") && !strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix) ||
		strings.HasPrefix(s, corev1.ResourceHugePagesPrefix) || strings.HasPrefix(s, corev1.ResourceAttachableVolumesPrefix)
}

// add adds an amount n times, which may be negative. The number of pods is not part of an amount that is used.
func (r *Resource) add(o *Resource, n int64) {
	r.MilliCPU += n * o.MilliCPU
	r.Memory += n * o.Memory
	r.EphemeralStorage += n * o.EphemeralStorage
	for name, amount := range o.Scalar {
		r.addScalar(name, n*amount)
	}
}

func (r *Resource) addScalar(name corev1.ResourceName, amount int64) {
	if r.Scalar == nil {
		r.Scalar = map[corev1.ResourceName]int64{}
	}
	r.Scalar[name] += amount
}

// Exceeds reports whether a pod requests more of a resource than another one.
func (p *Pod) Exceeds(o *Pod) bool {
	a, b := &p.requests, &o.requests
	if a.MilliCPU > b.MilliCPU || a.Memory > b.Memory || a.EphemeralStorage > b.EphemeralStorage {
		return true
	}
	for name, amount := range a.Scalar {
		if amount > b.Scalar[name] {
			return true
		}
	}
	return false
}
