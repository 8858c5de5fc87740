package pods

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/ctrl/client"
	"flyball.dev/internal/quota"
)

// allocations are the resources that the nodes have granted to pods. A resize changes the specification of a pod at once, and its
// allocation when it fits beside the allocations of the other pods of the node. The containers follow the allocation, which takes time
// if they restart. A pod without an entry has the resources in its status: only a pod with a resize has an entry, and a restart of the
// controller changes nothing.
//
//upstream:pkg/kubelet/allocation.manager
type allocations struct {
	mu   sync.Mutex // held while resizes are judged, so that no two of them get the same room
	pods map[types.NamespacedName]allocation
}

// allocation is the resources that a node has granted to a pod.
type allocation struct {
	uid        types.UID
	pod        *corev1.ResourceRequirements           // of the pod as a whole, or nil
	containers map[string]corev1.ResourceRequirements // containers without resources are not in it
	generation int64                                  // of the pod when its last resize was granted, or zero
}

// add adds a container.
func (a *allocation) add(name string, r corev1.ResourceRequirements) {
	delete(a.containers, name)
	if !equality.Semantic.DeepEqual(r, corev1.ResourceRequirements{}) {
		a.containers[name] = r
	}
}

// allocationOfSpec returns the allocation of a pod without a resize that waits.
func allocationOfSpec(pod *corev1.Pod) allocation {
	a := allocation{uid: pod.UID, pod: pod.Spec.Resources, containers: map[string]corev1.ResourceRequirements{}}
	for c := range podstate.Containers(&pod.Spec) {
		a.add(c.Name, c.Resources)
	}
	return a
}

// allocationOfStatus returns the allocation of a pod by its status. The status of a container lacks the allocated limits: a resize in
// progress with the requests of the specification has its limits too. A container that has not started has the resources in the
// specification.
func allocationOfStatus(pod *corev1.Pod) allocation {
	a := allocationOfSpec(pod)
	inProgress := podstate.Condition(pod, corev1.PodResizeInProgress) != nil
	for spec, s := range statusesOf(pod, &pod.Status) {
		if s.Resources == nil {
			continue
		}
		r := *s.Resources
		if s.AllocatedResources != nil {
			r.Requests = s.AllocatedResources
		}
		if !inProgress || !equality.Semantic.DeepEqual(r.Requests, spec.Resources.Requests) {
			a.add(s.Name, r)
		}
	}
	a.pod = allocationOfPod(pod, inProgress)
	return a
}

// areResized reports whether a container of a pod has other resources in its status than in its specification.
func areResized(pod *corev1.Pod) bool {
	for spec, s := range statusesOf(pod, &pod.Status) {
		if s.Resources != nil && !equality.Semantic.DeepEqual(*s.Resources, spec.Resources) ||
			s.AllocatedResources != nil && !equality.Semantic.DeepEqual(s.AllocatedResources, spec.Resources.Requests) {
			return true
		}
	}
	return isPodResized(pod, &pod.Status) || !equality.Semantic.DeepEqual(allocationOfPod(pod, false), pod.Spec.Resources)
}

// granted returns a pod with its allocated resources. It returns the pod itself if no resize waits. The caller holds the lock.
//
//upstream:pkg/kubelet/allocation.manager.UpdatePodFromAllocation
func (a *allocations) granted(pod *corev1.Pod) *corev1.Pod {
	has, ok := a.pods[client.ObjectKeyFromObject(pod)]
	if !ok || has.uid != pod.UID {
		if !areResized(pod) {
			return pod
		}
		has = allocationOfStatus(pod)
	}
	granted := pod
	if !equality.Semantic.DeepEqual(has.pod, pod.Spec.Resources) {
		granted = pod.DeepCopy()
		granted.Spec.Resources = has.pod.DeepCopy()
	}
	for c := range podstate.Containers(&pod.Spec) {
		if r := has.containers[c.Name]; !equality.Semantic.DeepEqual(r, c.Resources) {
			if granted == pod {
				granted = pod.DeepCopy()
			}
			podstate.Container(&granted.Spec, c.Name).Resources = *r.DeepCopy()
		}
	}
	return granted
}

// record records the resources in the specification of a pod as its allocation. generation is the one of its last resize. The caller holds
// the lock.
func (a *allocations) record(pod *corev1.Pod, generation int64) {
	if a.pods == nil {
		a.pods = map[types.NamespacedName]allocation{}
	}
	has := allocationOfSpec(pod)
	has.generation = generation
	a.pods[client.ObjectKeyFromObject(pod)] = has
}

// generation returns the generation of a pod when its last resize was granted, or zero.
func (a *allocations) generation(pod *corev1.Pod) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if has := a.pods[client.ObjectKeyFromObject(pod)]; has.uid == pod.UID {
		return has.generation
	}
	return 0
}

// of returns a pod with its allocated resources.
func (a *allocations) of(pod *corev1.Pod) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.granted(pod)
}

// forget forgets a pod that uses no resources.
func (a *allocations) forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pods, key)
}

// allocate returns a pod with its allocated resources. If the pod has other resources in its specification, allocate grants the
// resizes on its node that fit, in kubelet's order, and enqueues the other pods that it has granted one. why says why the resize of the
// pod itself has to wait, or is "".
//
//upstream:pkg/kubelet/allocation.manager.retryPendingResizes
func (r *reconciler) allocate(ctx context.Context, pod *corev1.Pod) (granted *corev1.Pod, why string, err error) {
	a := &r.allocations
	a.mu.Lock()
	defer a.mu.Unlock()
	granted = a.granted(pod)
	if granted == pod {
		if !areResized(pod) {
			delete(a.pods, client.ObjectKeyFromObject(pod)) // the status has the allocation
		}
		return pod, "", nil
	}
	a.record(granted, a.pods[client.ObjectKeyFromObject(pod)].generation)
	r.noteDeferral(client.ObjectKeyFromObject(pod), true) // before the reads: a release after them tries it again
	node := &corev1.Node{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		return granted, "", client.IgnoreNotFound(err)
	}
	all, err := podstate.OnNode(ctx, r.client, pod.Spec.NodeName)
	if err != nil {
		return granted, "", client.IgnoreNotFound(err)
	}
	for _, p := range a.pending(pod, all) {
		lack := a.lack(node, p, all)
		switch {
		case lack == "":
			a.record(p, p.Generation)
			if p != pod {
				r.enqueue(client.ObjectKeyFromObject(p))
			}
		case p == pod:
			why = lack
		}
	}
	return a.granted(pod), why, nil
}

// pending returns the pods of a node with resizes that wait: pod, and the ones with the condition PodResizePending. Resizes that
// increase no requests are first. Then higher priorities, the class Guaranteed and longer waits go before.
//
//upstream:pkg/kubelet/allocation.manager.sortPendingResizes
func (a *allocations) pending(pod *corev1.Pod, all []corev1.Pod) []*corev1.Pod {
	pending := []*corev1.Pod{pod}
	for i := range all {
		p := &all[i]
		if p.UID != pod.UID && p.DeletionTimestamp == nil && !podstate.Finished(p) && podstate.Condition(p, corev1.PodResizePending) != nil && a.granted(p) != p {
			pending = append(pending, p)
		}
	}
	last := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	slices.SortFunc(pending, func(x, y *corev1.Pod) int {
		waits, waitsToo := podstate.Condition(x, corev1.PodResizePending), podstate.Condition(y, corev1.PodResizePending)
		by := cmp.Or(
			last(a.increases(x))-last(a.increases(y)),
			cmp.Compare(ptr.Deref(y.Spec.Priority, 0), ptr.Deref(x.Spec.Priority, 0)),
			last(x.Status.QOSClass != corev1.PodQOSGuaranteed)-last(y.Status.QOSClass != corev1.PodQOSGuaranteed),
			last(waits == nil)-last(waitsToo == nil))
		if by == 0 && waits != nil {
			by = waits.LastTransitionTime.Compare(waitsToo.LastTransitionTime.Time)
		}
		return cmp.Or(by, cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return pending
}

// increases reports whether a resize increases the requests of a pod.
//
//upstream:pkg/kubelet/allocation.manager.isResizeIncreasingRequests
func (a *allocations) increases(pod *corev1.Pod) bool {
	was, is := corev1.ResourceList{}, corev1.ResourceList{}
	addRequests(was, a.granted(pod))
	addRequests(is, pod)
	return is.Cpu().Cmp(*was.Cpu()) > 0 || is.Memory().Cmp(*was.Memory()) > 0
}

// lack says which resource a node lacks for the specification of a pod beside the allocations of all other pods on it. It returns "" if
// the pod fits. The API server refuses a resize beyond the capacity of the node.
//
//upstream:pkg/kubelet/lifecycle.predicateAdmitHandler.Admit
func (a *allocations) lack(node *corev1.Node, pod *corev1.Pod, all []corev1.Pod) string {
	used, requested := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range all {
		if other := &all[i]; other.UID != pod.UID && !podstate.Finished(other) {
			addRequests(used, a.granted(other))
		}
	}
	addRequests(requested, pod)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		need, taken, capacity := amount(requested, name), amount(used, name), amount(node.Status.Allocatable, name)
		if need > 0 && need > capacity-taken {
			return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, need, taken, capacity)
		}
	}
	return ""
}

// addRequests adds the requests of a pod, with its overhead.
func addRequests(total corev1.ResourceList, pod *corev1.Pod) {
	requests, _ := quota.Requirements(pod)
	for _, list := range []corev1.ResourceList{requests, pod.Spec.Overhead} {
		for name, q := range list {
			sum := total[name].DeepCopy()
			sum.Add(q)
			total[name] = sum
		}
	}
}

// amount returns an amount of a resource, of CPU in thousandths.
func amount(list corev1.ResourceList, name corev1.ResourceName) int64 {
	q := list[name]
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}
