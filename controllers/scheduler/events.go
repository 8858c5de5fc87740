package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/nodestate"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/scheduler/framework"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/reconcile"
)

// queue is the queue of the controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// kinds are the kinds of the other objects that matter, with the changes that their events are.
var kinds = []struct {
	object           client.Object
	changed, removed framework.Event
}{
	{&corev1.Namespace{}, framework.PodLabels, 0},
	{&corev1.Service{}, 0, 0},
	{&corev1.ReplicationController{}, 0, 0},
	{&appsv1.ReplicaSet{}, 0, 0},
	{&appsv1.StatefulSet{}, 0, 0},
	{&policyv1.PodDisruptionBudget{}, 0, 0},
	{&corev1.PersistentVolumeClaim{}, framework.ClaimChanged, 0},
	{&corev1.PersistentVolume{}, framework.VolumeChanged, 0},
	{&storagev1.StorageClass{}, framework.ClassChanged, 0},
	{&storagev1.CSINode{}, framework.DriverChanged, 0},
	{&storagev1.CSIDriver{}, framework.DriverChanged, 0},
	{&storagev1.CSIStorageCapacity{}, framework.DriverChanged, 0},
	{&storagev1.VolumeAttachment{}, 0, framework.AttachmentRemoved},
}

// podEvents returns the handler that updates the state with pods. It relies on the order of their
// events.
//
//upstream:pkg/scheduler.addAllEventHandlers
func (r *reconciler) podEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { r.updatePod(nil, e.Object.(*corev1.Pod), q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			was, pod := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			if was.UID != pod.UID {
				r.retry(q, r.state.removePod(was, time.Now()))
				was = nil
			}
			r.updatePod(was, pod, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.retry(q, r.state.removePod(e.Object.(*corev1.Pod), time.Now()))
		},
	}
}

// updatePod updates a pod, and adds it to the queue if it is to be scheduled. A change of the status alone is no reason to try the
// pod again.
//
//upstream:pkg/scheduler/backend/queue.PriorityQueue.Update
func (r *reconciler) updatePod(was, pod *corev1.Pod, q queue) {
	r.retry(q, r.state.updatePod(was, pod, time.Now()))
	if needsScheduling(pod) && (was == nil || !needsScheduling(was) || was.Generation != pod.Generation || !sameLabels(was.Labels, pod.Labels)) {
		r.retry(q, []retry{{key: keyOf(pod), priority: priorityOf(pod)}})
	}
}

// nodeEvents returns the handler that updates the state with nodes.
func (r *reconciler) nodeEvents() handler.EventHandler {
	update := func(o client.Object, q queue) { r.retry(q, r.state.updateNode(o.(*corev1.Node), time.Now())) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { update(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { update(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.retry(q, r.state.removeNode(e.Object.GetName(), time.Now()))
		},
	}
}

// objectEvents returns the handler that updates the state with other objects.
func (r *reconciler) objectEvents(changed, removed framework.Event) handler.EventHandler {
	update := func(o client.Object, q queue) { r.retry(q, r.state.updateObject(o, changed, time.Now())) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { update(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { update(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.retry(q, r.state.removeObject(e.Object, removed, time.Now()))
		},
	}
}

// retry adds pods to the queue, by their priorities, after their back-off. While there is nothing else to do, a pod does not wait for
// that.
//
//upstream:pkg/scheduler/backend/queue.PriorityQueue.moveEntitiesToActiveOrBackoffQueue
func (r *reconciler) retry(q queue, pods []retry) {
	idle := q.Len() == 0
	// A worker may take the first pod before the last one is there.
	slices.SortStableFunc(pods, func(a, b retry) int { return cmp.Compare(b.priority, a.priority) })
	for _, p := range pods {
		if idle {
			p.after = 0
		}
		request := reconcile.Request{NamespacedName: p.key}
		if pq, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			pq.AddWithOpts(priorityqueue.AddOpts{After: p.after, Priority: ptr.To(p.priority)}, request)
		} else {
			q.AddAfter(request, p.after)
		}
	}
}

// popBackoff adds a pod to an empty queue, if one waits for the end of its back-off.
func (r *reconciler) popBackoff() {
	if r.queue.Len() > 0 {
		return
	}
	if p, ok := r.state.popBackoff(); ok {
		r.retry(r.queue, []retry{p})
	}
}

// schedulesTheSame reports whether a pod with a node leaves the same to other pods in two states.
//
//upstream:pkg/scheduler/framework.PodSchedulingPropertiesChange
func schedulesTheSame(a, b *corev1.Pod) bool {
	return a.Generation == b.Generation && sameLabels(a.Labels, b.Labels) && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		a.Status.StartTime.Equal(b.Status.StartTime) && sameResources(&a.Status, &b.Status) &&
		(podstate.Condition(a, corev1.DisruptionTarget) == nil) == (podstate.Condition(b, corev1.DisruptionTarget) == nil)
}

// sameResources reports whether two statuses have the same resources.
func sameResources(a, b *corev1.PodStatus) bool {
	same := func(a, b []corev1.ContainerStatus) bool {
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if a[i].Name != b[i].Name || !equality.Semantic.DeepEqual(a[i].AllocatedResources, b[i].AllocatedResources) ||
				!equality.Semantic.DeepEqual(a[i].Resources, b[i].Resources) {
				return false
			}
		}
		return true
	}
	resizing := func(s *corev1.PodStatus) corev1.PodCondition {
		return ptr.Deref(podstate.Condition(&corev1.Pod{Status: *s}, corev1.PodResizePending), corev1.PodCondition{})
	}
	return same(a.ContainerStatuses, b.ContainerStatuses) && same(a.InitContainerStatuses, b.InitContainerStatuses) &&
		equality.Semantic.DeepEqual(a.Resources, b.Resources) && equality.Semantic.DeepEqual(a.AllocatedResources, b.AllocatedResources) &&
		resizing(a).Reason == resizing(b).Reason
}

func sameLabels(a, b map[string]string) bool { return maps.Equal(a, b) }

// nodeChange returns the change of a node. was is nil for a new node.
//
//upstream:pkg/scheduler/framework.NodeSchedulingPropertiesChange
func nodeChange(was, node *corev1.Node) (e framework.Event) {
	if was == nil {
		return framework.NodeAdded
	}
	if !sameLabels(was.Labels, node.Labels) {
		e |= framework.NodeLabels
	}
	if was.Spec.Unschedulable != node.Spec.Unschedulable || !equality.Semantic.DeepEqual(nodestate.Taints(was), nodestate.Taints(node)) {
		e |= framework.NodeTaints
	}
	if !equality.Semantic.DeepEqual(was.Status.Allocatable, node.Status.Allocatable) {
		e |= framework.NodeAllocatable
	}
	return e
}
