package framework

import (
	"math"

	corev1 "k8s.io/api/core/v1"
)

// nodeResourcesFit rejects nodes that lack a request of the pod, and prefers nodes with much left.
//
//upstream:pkg/scheduler/framework/plugins/noderesources.Fit.Filter
//upstream:pkg/scheduler/framework/plugins/noderesources.Fit.Score
type nodeResourcesFit struct {
	requests    Resource
	cpu, memory int64 // the requests for the scores
}

func (*nodeResourcesFit) name() string  { return "NodeResourcesFit" }
func (*nodeResourcesFit) weight() int64 { return 1 }

//upstream:pkg/scheduler/framework/plugins/noderesources.computePodResourceRequest
func (f *nodeResourcesFit) preFilter(c *cycle) preFilterResult {
	f.requests = newResource(podRequests(c.pod, true, nil))
	return preFilterResult{}
}

//upstream:pkg/scheduler/framework/plugins/noderesources.fitsRequest
func (f *nodeResourcesFit) filter(_ *cycle, n *Node) *Status {
	var status *Status
	insufficient := func(reason string, impossible bool) {
		if status == nil {
			status = rejected(f.name())
		}
		status.Reasons = append(status.Reasons, reason)
		status.Unresolvable = status.Unresolvable || impossible
	}
	if int64(len(n.pods)+1) > n.allocatable.Pods {
		insufficient("Too many pods", false)
	}
	check := func(name string, want, has, used int64) {
		if want > 0 && want > has-used {
			insufficient("Insufficient "+name, want > has)
		}
	}
	r, has, used := &f.requests, &n.allocatable, &n.requested
	check("cpu", r.MilliCPU, has.MilliCPU, used.MilliCPU)
	check("memory", r.Memory, has.Memory, used.Memory)
	check("ephemeral-storage", r.EphemeralStorage, has.EphemeralStorage, used.EphemeralStorage)
	for name, want := range r.Scalar {
		check(string(name), want, has.Scalar[name], used.Scalar[name])
	}
	return status
}

// preScore computes the requests. As in kube-scheduler, requests of the pod itself do not count.
//
//upstream:pkg/scheduler/framework/plugins/noderesources.resourceAllocationScorer.calculatePodResourceRequest
func (f *nodeResourcesFit) preScore(c *cycle, _ []*Node) (skip bool) {
	list := podRequests(c.pod, false, missingRequests)
	cpu, memory := list[corev1.ResourceCPU], list[corev1.ResourceMemory]
	f.cpu, f.memory = cpu.MilliValue(), memory.Value()
	return false
}

//upstream:pkg/scheduler/framework/plugins/noderesources.leastResourceScorer
func (f *nodeResourcesFit) score(_ *cycle, n *Node) int64 {
	sum, weights := int64(0), int64(0)
	for _, r := range [][2]int64{{n.nonZeroCPU + f.cpu, n.allocatable.MilliCPU}, {n.nonZeroMemory + f.memory, n.allocatable.Memory}} {
		requested, has := r[0], r[1]
		if has == 0 {
			continue
		}
		weights++
		if requested <= has {
			sum += (has - requested) * maxScore / has
		}
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}

func (*nodeResourcesFit) normalize([]int64) {}

// balancedAllocation prefers nodes on which the pod makes the use of CPU and memory more even.
//
//upstream:pkg/scheduler/framework/plugins/noderesources.BalancedAllocation.Score
type balancedAllocation struct{ requests Resource }

func (*balancedAllocation) name() string  { return "NodeResourcesBalancedAllocation" }
func (*balancedAllocation) weight() int64 { return 1 }

//upstream:pkg/scheduler/framework/plugins/noderesources.BalancedAllocation.PreScore
func (b *balancedAllocation) preScore(c *cycle, _ []*Node) (skip bool) {
	b.requests = c.info.requests
	return b.requests.MilliCPU == 0 && b.requests.Memory == 0
}

//upstream:pkg/scheduler/framework/plugins/noderesources.balancedResourceScorer
func (b *balancedAllocation) score(_ *cycle, n *Node) int64 {
	without := balance(n.requested.MilliCPU, n.requested.Memory, &n.allocatable)
	with := balance(n.requested.MilliCPU+b.requests.MilliCPU, n.requested.Memory+b.requests.Memory, &n.allocatable)
	return maxScore/2 + (maxScore/2+with-without)/2
}

func (*balancedAllocation) normalize([]int64) {}

// balance returns how even the use of CPU and memory is, from 0 to maxScore.
//
//upstream:pkg/scheduler/framework/plugins/noderesources.balancedResourceScore
func balance(cpu, memory int64, has *Resource) int64 {
	if has.MilliCPU == 0 || has.Memory == 0 {
		return maxScore
	}
	used := func(requested, of int64) float64 { return min(float64(requested)/float64(of), 1) }
	deviation := math.Abs((used(cpu, has.MilliCPU) - used(memory, has.Memory)) / 2)
	return int64((1 - deviation) * maxScore)
}
