package framework

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
)

// Pod is the part of a pod that a snapshot keeps, with the values that plugins compute from the object. A cluster has many pods, so
// a Pod refers to nothing of the object, and is small.
//
//upstream:pkg/scheduler/framework.PodInfo
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Priority        int32
	// Terminating is whether the pod is being deleted, and Preempted whether that is for another pod.
	Terminating, Preempted bool

	labels  labelSet
	node    *Node // nil if it has none
	started int64 // in seconds since 1970; never if the pod did not start
	*needs
}

// needs are the demands of a pod on its node. They never change.
type needs struct {
	requests      Resource
	nonZeroCPU    int64 // the requests for the scores
	nonZeroMemory int64
	ports         []hostPort
	volumes       []corev1.Volume // the ones that a plugin considers
	terms         *terms          // nil if it has none
}

// never is the start of a pod that did not start: after all others.
const never = math.MaxInt64

// newPod returns the part of a pod that a snapshot keeps.
//
//upstream:pkg/scheduler/framework.NewPodInfo
//upstream:pkg/scheduler/framework.PodInfo.CalculateResource
func newPod(pod *corev1.Pod) (*Pod, error) {
	requests := boundRequests(pod, nil)
	nonZero := boundRequests(pod, missingFor(pod, requests))
	cpu, memory := nonZero[corev1.ResourceCPU], nonZero[corev1.ResourceMemory]
	identity := string(pod.UID) + pod.Namespace + pod.Name // one string for all three
	name := len(identity) - len(pod.Name)
	p := &Pod{
		Namespace: identity[len(pod.UID):name], Name: identity[name:], UID: types.UID(identity[:len(pod.UID)]),
		Priority:    ptr.Deref(pod.Spec.Priority, 0),
		Terminating: pod.DeletionTimestamp != nil, Preempted: terminatingByPreemption(pod),
		labels: newLabelSet(pod.Labels), started: never,
		needs: &needs{requests: newResource(requests), nonZeroCPU: cpu.MilliValue(), nonZeroMemory: memory.Value(), ports: hostPorts(&pod.Spec)},
	}
	if s := pod.Status.StartTime; s != nil {
		p.started = s.Unix()
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil || isRestricted(v) {
			p.volumes = append(p.volumes, *v)
		}
	}
	var err error
	p.terms, err = newTerms(pod)
	return p, err
}

// common is the needs of a pod that has no others.
type common struct{ cpu, memory, storage, nonZeroCPU, nonZeroMemory int64 }

// common returns the needs as a comparable value, and false if there are others.
func (n *needs) common() (common, bool) {
	r := &n.requests
	return common{r.MilliCPU, r.Memory, r.EphemeralStorage, n.nonZeroCPU, n.nonZeroMemory},
		len(r.Scalar) == 0 && len(n.ports) == 0 && len(n.volumes) == 0 && n.terms == nil
}

// sharedNeeds is the needs that several pods of a snapshot have.
type sharedNeeds struct {
	needs
	pods int
}

// share makes a pod share its needs with pods that need the same, until unshare.
func (s *Snapshot) share(p *Pod) {
	key, ok := p.needs.common()
	if !ok {
		return
	}
	n := s.needs[key]
	if n == nil {
		n = &sharedNeeds{needs: *p.needs}
		s.needs[key] = n
	}
	n.pods++
	p.needs = &n.needs
}

func (s *Snapshot) unshare(p *Pod) {
	if key, ok := p.needs.common(); ok {
		if s.needs[key].pods--; s.needs[key].pods == 0 {
			delete(s.needs, key)
		}
	}
}

// terminatingByPreemption reports whether a pod is being deleted because of another pod.
//
//upstream:pkg/scheduler/framework/preemption.PodTerminatingByPreemption
func terminatingByPreemption(pod *corev1.Pod) bool {
	c := podstate.Condition(pod, corev1.DisruptionTarget)
	return pod.DeletionTimestamp != nil && c != nil && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
}
