package scheduler

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/nodestate"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/volume"
	"flyball.dev/controllers/scheduler/framework"
)

// state is the scheduler's view of the cluster. Events update it. A scheduled pod is assumed to be on its node until its binding
// is observed.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl
type state struct {
	mu       sync.Mutex
	snapshot *framework.Snapshot
	ready    map[string]bool // the nodes that are
	assumed  map[types.UID]*reservation
	pending  *pending
}

func newState() *state {
	return &state{snapshot: framework.NewSnapshot(), ready: map[string]bool{}, assumed: map[types.UID]*reservation{}, pending: newPending()}
}

// schedule decides on a pod, and assumes it on its node. It returns nil if the pod has a node. A pod in the back-off after an error, and
// a new pod in a cluster without a ready node, are not decided on yet, but when the time is over that schedule returns. The last result
// is the pods to try again.
//
//upstream:pkg/scheduler.Scheduler.schedulingCycle
func (s *state) schedule(pod *corev1.Pod, now time.Time) (d *framework.Decision, left time.Duration, helped []retry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, _ := s.snapshot.Pod(pod.UID); p != nil {
		return nil, 0, nil
	}
	if left := s.pending.afterError(pod, now); left > 0 {
		return &framework.Decision{}, left, nil
	}
	decision := s.snapshot.Schedule(pod)
	d = &decision
	switch {
	case d.Node != "":
		s.pending.hold(keyOf(pod))
		s.snapshot.Assume(pod, d.Node)
		if d.Volumes != nil {
			s.assumeVolumes(d)
		}
		s.assumed[pod.UID] = nil
		return d, 0, nil
	case len(s.ready) == 0:
		if left = pod.CreationTimestamp.Add(nodeReadyTimeout).Sub(now); left > 0 && left <= nodeReadyTimeout { // more if the clock was ahead
			return d, left, nil
		}
	}
	if d.Error != nil {
		return d, 0, nil
	}
	if d.Nomination != nil {
		helped = s.nominate(pod, *d.Nomination, now)
	}
	s.pending.add(pod, d.Plugins, now)
	return d, 0, helped
}

// nominate reserves a node for a pod, or none if the name is empty. If another node was reserved before, it returns the pods to try
// again because of that: for pods of a lower or the same priority the pod was as good as there.
//
//upstream:pkg/scheduler.hasNominatedNodeNameChanged
func (s *state) nominate(pod *corev1.Pod, node string, now time.Time) []retry {
	was := s.snapshot.NominatedNode(pod.UID)
	s.snapshot.Nominate(pod, node)
	if was == "" || was == node {
		return nil
	}
	return s.pending.helpedUpTo(priorityOf(pod), framework.PodRemoved, now, pod)
}

// reservationOf returns the reservation of a pod, or nil.
func (s *state) reservationOf(pod types.UID) *reservation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.assumed[pod]
}

// setReservation sets the reservation of a pod that is assumed on its node.
func (s *state) setReservation(pod types.UID, w *reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.assumed[pod]; ok {
		s.assumed[pod] = w
	}
}

// reserved returns the pods with some of the reservations, which then check them.
func (s *state) reserved(is func(*reservation) bool) (list []retry) {
	for _, w := range s.assumed {
		if w != nil && is(w) {
			list = append(list, retry{key: keyOf(w.pod), priority: priorityOf(w.pod)})
		}
	}
	return list
}

// reservedOn returns the pods with a reservation of a node.
func (s *state) reservedOn(node string) []retry {
	return s.reserved(func(w *reservation) bool { return w.node == node })
}

// reservedWith returns the pods with a reservation that waits for an object, if that is a volume. The events of claims lead to their
// pods without this.
func (s *state) reservedWith(object runtime.Object) []retry {
	v, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return nil
	}
	return s.reserved(func(w *reservation) bool { return w.uses(v) })
}

// assumeVolumes assumes that volumes are bound to their claims, and that the provisioners of the other claims know the node. The decision
// gets the objects as they are to be written.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.AssumePodVolumes
//upstream:k8s.io/component-helpers/storage/volume.GetBindVolumeToClaim
func (s *state) assumeVolumes(d *framework.Decision) {
	for i, b := range d.Volumes.Bindings {
		v := b.Volume.DeepCopy()
		if !volume.IsBoundTo(v, b.Claim) {
			metav1.SetMetaDataAnnotation(&v.ObjectMeta, volume.BoundByController, "yes")
		}
		v.Spec.ClaimRef = volume.ClaimRef(b.Claim)
		s.snapshot.Objects.Set(v)
		d.Volumes.Bindings[i].Volume = v.DeepCopy()
	}
	for i, claim := range d.Volumes.Provisions {
		claim = claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.SelectedNode, d.Node)
		s.snapshot.Objects.Set(claim)
		d.Volumes.Provisions[i] = claim.DeepCopy()
	}
}

// nominatedBelow returns the pods of a lower priority than a pod that a node is reserved for.
func (s *state) nominatedBelow(pod *corev1.Pod, node string) (keys []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.snapshot.NominatedBelow(node, int32(priorityOf(pod))) {
		keys = append(keys, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
	return keys
}

// markPreempted marks a pod that was evicted, until its deletion is observed.
func (s *state) markPreempted(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, _ := s.snapshot.Pod(pod); p != nil {
		p.Preempted = true
	}
}

// updatePod updates a pod, and returns the pods to try again because of that. was is an earlier state of the pod, or nil.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.AddPod
//upstream:pkg/scheduler/backend/cache.cacheImpl.UpdatePod
func (s *state) updatePod(was, pod *corev1.Pod, now time.Time) []retry {
	if podstate.Finished(pod) {
		return s.removePod(pod, now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod.Spec.NodeName == "" {
		return s.updateUnbound(was, pod, now)
	}
	before, node := s.snapshot.Pod(pod.UID)
	_, assumed := s.assumed[pod.UID]
	delete(s.assumed, pod.UID)
	s.pending.remove(keyOf(pod))
	if was != nil && node == pod.Spec.NodeName && !assumed && schedulesTheSame(was, pod) {
		before.UseHostPorts() // kube-scheduler removes the pod and adds it again
		return nil
	}
	s.snapshot.SetPod(pod)
	if node == "" || assumed {
		return s.pending.helped(framework.PodAdded, now, pod)
	}
	event := framework.Event(0)
	if after, _ := s.snapshot.Pod(pod.UID); before.Exceeds(after) {
		event |= framework.PodScaledDown
	}
	if was != nil && !sameLabels(was.Labels, pod.Labels) {
		event |= framework.PodLabels
	}
	if was == nil {
		was = pod
	}
	return s.pending.helped(event, now, was, pod)
}

// updateUnbound updates a pod without a node, and returns the pods to try again because of that. An assumed pod stays so until its
// deletion begins. The pods of other schedulers reserve nothing.
//
//upstream:pkg/scheduler.Scheduler.updatePodInSchedulingQueue
//upstream:pkg/scheduler.Scheduler.handleAssumedPodDeletion
//upstream:pkg/scheduler/backend/queue.nominator.UpdateNominatedPod
func (s *state) updateUnbound(was, pod *corev1.Pod, now time.Time) []retry {
	_, assumed := s.assumed[pod.UID]
	switch {
	case pod.Spec.SchedulerName != corev1.DefaultSchedulerName:
		return nil
	case assumed && pod.DeletionTimestamp != nil:
		return s.forget(pod, now)
	case assumed:
		return nil
	}
	node := pod.Status.NominatedNodeName
	if node == "" && was != nil && was.Status.NominatedNodeName == "" {
		node = s.snapshot.NominatedNode(pod.UID) // it may be younger than the event
	}
	return s.nominate(pod, node, now)
}

// forgetPod removes an assumed pod that could not be bound from its node, and returns the pods to try again because of that. It
// does not remove a pod with an observed binding.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.ForgetPod
func (s *state) forgetPod(pod *corev1.Pod, now time.Time) []retry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forget(pod, now)
}

func (s *state) forget(pod *corev1.Pod, now time.Time) []retry {
	if _, ok := s.assumed[pod.UID]; !ok {
		return nil
	}
	delete(s.assumed, pod.UID)
	s.snapshot.RemovePod(pod.UID)
	return s.pending.helped(framework.PodRemoved, now, pod)
}

// failed adds a pod to the pending ones after an error, and takes its nomination back. It returns the pod's back-off, and the pods to
// try again because of the nomination.
func (s *state) failed(pod *corev1.Pod, now time.Time) (after time.Duration, helped []retry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	helped = s.nominate(pod, "", now)
	return s.pending.fail(pod, now), helped
}

// dismiss removes a pod that is not to be scheduled any longer, and returns the pods to try again because of that. An attempt that ends
// after the deletion of its pod has added the pod again, or has assumed it.
func (s *state) dismiss(key types.NamespacedName, now time.Time) (helped []retry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.assumed {
		if w != nil && keyOf(w.pod) == key {
			helped = append(helped, s.forget(w.pod, now)...)
		}
	}
	if w := s.pending.pods[key]; w != nil {
		s.pending.remove(key)
		helped = append(helped, s.nominate(w.pod, "", now)...)
	}
	return helped
}

// removePod removes a pod, and returns the pods to try again because of that.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.RemovePod
func (s *state) removePod(pod *corev1.Pod, now time.Time) []retry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.remove(keyOf(pod))
	delete(s.assumed, pod.UID)
	if s.snapshot.RemovePod(pod.UID) {
		return s.pending.helped(framework.PodRemoved, now, pod)
	}
	return s.nominate(pod, "", now)
}

// updateNode updates a node, and returns the pods to be retried because of that.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.UpdateNode
//upstream:pkg/scheduler/framework.NodeSchedulingPropertiesChange
func (s *state) updateNode(node *corev1.Node, now time.Time) []retry {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.snapshot.Node(node.Name)
	if nodestate.Ready(node) {
		s.ready[node.Name] = true
	} else {
		delete(s.ready, node.Name)
	}
	event := nodeChange(was, node)
	if event == 0 && equality.Semantic.DeepEqual(was.Status.Images, node.Status.Images) {
		return nil
	}
	s.snapshot.SetNode(node)
	return append(s.pending.helped(event, now), s.reservedOn(node.Name)...)
}

// removeNode removes a deleted node, and returns the pods to be retried because of that.
//
//upstream:pkg/scheduler/backend/cache.cacheImpl.RemoveNode
func (s *state) removeNode(name string, now time.Time) []retry {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ready, name)
	s.snapshot.RemoveNode(name)
	return append(s.pending.helped(framework.NodeRemoved, now), s.reservedOn(name)...)
}

// updateObject updates another object, and returns the pods to be retried because of that.
func (s *state) updateObject(object runtime.Object, event framework.Event, now time.Time) []retry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot.Objects.Set(object)
	return append(s.pending.helped(event, now), s.reservedWith(object)...)
}

// removeObject removes another object, and returns the pods to be retried because of that.
func (s *state) removeObject(object runtime.Object, event framework.Event, now time.Time) []retry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot.Objects.Remove(object)
	return append(s.pending.helped(event, now), s.reservedWith(object)...)
}

// popBackoff returns the pod with the earliest end of its back-off. The pod need not wait while there is nothing else to do.
//
//upstream:pkg/scheduler/backend/queue.backoffQueue.popBackoff
func (s *state) popBackoff() (retry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending.popBackoff()
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
