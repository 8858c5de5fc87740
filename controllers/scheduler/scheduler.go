// Package scheduler binds pods to nodes, as kube-scheduler does with its default profile. Package framework decides on the node.
//
// Pods are tried in the order of their priorities. A pod that fits nowhere stays Pending, with kube-scheduler's messages in its
// PodScheduled condition and in an event. It is tried again when something changes that may help, after a back-off while other pods
// wait, and after five minutes at the latest. If it fits without pods of a lower priority, these are evicted, and the pod is
// nominated for their node. Pods with scheduling gates, or with the name of another scheduler, are left alone.
//
// If claims of a pod wait for their first consumer, the volumes are selected with the node, and the pod is bound when the claims are.
//
// The reconciler keeps the pods that fit nowhere, with the plugins that rejected them, and tries them again when an
// event may help (hints.go of package framework, pending.go). The queue of the controller orders pods by priority.
// Attempts are made one after another, and up to eight pods are bound at once. A pod with claims that wait for their
// first consumer reserves its node, and a later reconcile binds it, so that no worker waits. The module test/mirror
// runs kube-scheduler and this one on the same generated worlds, and compares each node's reasons and scores.
package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/scheduler/framework"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/recorder"
	"flyball.dev/ctrl/source"
)

// nodeReadyTimeout is how long a new pod waits for the first ready node of the cluster before it is
// reported as unschedulable.
const nodeReadyTimeout = 2 * time.Second

// maxUnschedulable is how long a pod waits for a change that may help.
//
//upstream:pkg/scheduler/backend/queue.DefaultPodMaxInUnschedulablePodsDuration
const maxUnschedulable = 5 * time.Minute

// AddToManager adds the scheduler.
//
//upstream:pkg/scheduler.New
//upstream:pkg/scheduler.addAllEventHandlers
func AddToManager(mgr manager.Manager) error {
	if err := podstate.IndexClaims(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &reconciler{
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		recorder: mgr.GetEventRecorder(corev1.DefaultSchedulerName),
		state:    newState(),
	}
	b := builder.ControllerManagedBy(mgr).
		Named("scheduler").
		Watches(&corev1.Pod{}, r.podEvents()).
		Watches(&corev1.Node{}, r.nodeEvents()).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			r.queue = q
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8, InTurn: true})
	for _, k := range kinds {
		b = b.Watches(k.object, r.objectEvents(k.changed, k.removed))
	}
	return b.Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(podstate.UserRequests(r.client, needsScheduling))).Complete(r)
}

// reconciler schedules pods.
type reconciler struct {
	client   client.Client
	live     client.Reader
	recorder recorder.EventRecorder
	state    *state
	queue    queue // set before the first Reconcile
}

// needsScheduling reports whether a pod is to be scheduled by this scheduler.
//
//upstream:pkg/scheduler.responsibleForPod
//upstream:pkg/scheduler/framework/plugins/schedulinggates.SchedulingGates.PreEnqueue
func needsScheduling(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !podstate.Finished(pod) &&
		pod.Spec.SchedulerName == corev1.DefaultSchedulerName && len(pod.Spec.SchedulingGates) == 0
}

// Reconcile binds one pod to a node, or reports why it is unschedulable.
//
//upstream:pkg/scheduler.Scheduler.ScheduleOne
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	defer r.popBackoff()
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, req.NamespacedName, pod)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, err
	case err != nil || !needsScheduling(pod):
		r.retry(r.queue, r.state.dismiss(req.NamespacedName, time.Now()))
		return reconcile.Result{}, nil
	}
	if waiting := r.state.reservationOf(pod.UID); waiting != nil {
		controller.EndTurn(ctx)
		return r.finish(ctx, pod, waiting)
	}
	d, left, helped := r.state.schedule(pod, time.Now())
	r.retry(r.queue, helped)
	controller.EndTurn(ctx)
	switch {
	case left > 0:
		return reconcile.Result{RequeueAfter: left}, nil
	case d == nil: // the cache has yet to observe its binding
		return reconcile.Result{}, nil
	case d.Error != nil:
		return r.fail(ctx, pod, d.Error)
	case d.Node == "":
		return r.reject(ctx, pod, d)
	case d.Volumes != nil:
		return r.reserve(ctx, pod, d)
	}
	return r.bind(ctx, pod, d.Node)
}

// reject reports why a pod fits nowhere, and evicts its victims.
//
//upstream:pkg/scheduler.Scheduler.handleSchedulingFailure
func (r *reconciler) reject(ctx context.Context, pod *corev1.Pod, d *framework.Decision) (reconcile.Result, error) {
	err := r.recordFailure(ctx, pod, corev1.PodReasonUnschedulable, d.Message, d.Nomination)
	if err == nil && len(d.Victims) > 0 {
		err = r.evict(ctx, pod, *d.Nomination, d.Victims)
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: maxUnschedulable, Priority: ptr.To(priorityOf(pod))}, nil
}

// bind binds a pod to its node.
//
// The response does not contain the pod, so that read-your-writes consistency would take a live
// read. It is not needed: the pod is assumed on its node, and cannot be bound twice.
//
//upstream:pkg/scheduler/framework/plugins/defaultbinder.DefaultBinder.Bind
//upstream:pkg/scheduler.Scheduler.bindingCycle
func (r *reconciler) bind(ctx context.Context, pod *corev1.Pod, node string) (reconcile.Result, error) {
	err := r.client.SubResource("binding").Create(ctx, pod, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, client.DisableReadYourWritesConsistency)
	if err != nil {
		return r.fail(ctx, pod, fmt.Errorf("running Bind plugin \"DefaultBinder\": %w", err))
	}
	r.recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding",
		"Successfully assigned %v/%v to %v", pod.Namespace, pod.Name, node)
	return reconcile.Result{}, nil
}

// fail reports an error that is not about nodes. The pod is not assumed on a node any longer, and is tried again after a back-off,
// unless it was bound, deleted or replaced meanwhile.
//
//upstream:pkg/scheduler.Scheduler.handleBindingCycleError
//upstream:pkg/scheduler.Scheduler.handleSchedulingFailure
func (r *reconciler) fail(ctx context.Context, pod *corev1.Pod, cause error) (reconcile.Result, error) {
	r.retry(r.queue, r.state.forgetPod(pod, time.Now()))
	current := &corev1.Pod{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(pod), current)
	if err != nil || current.UID != pod.UID || !needsScheduling(current) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Error(cause, "Cannot schedule a pod; retrying")
	after, helped := r.state.failed(current, time.Now())
	r.retry(r.queue, helped)
	if err := r.recordFailure(ctx, current, corev1.PodReasonSchedulerError, cause.Error(), ptr.To("")); err != nil {
		log.FromContext(ctx).Error(err, "Cannot update the status of a pod")
	}
	return reconcile.Result{RequeueAfter: after, Priority: ptr.To(priorityOf(pod))}, nil
}

// recordFailure sets the PodScheduled condition of a pod to False and records an event, unless the condition has that message
// already. It sets the nominated node too, if there is a new one.
//
//upstream:pkg/scheduler.Scheduler.handleSchedulingFailure
//upstream:pkg/scheduler.updatePod
func (r *reconciler) recordFailure(ctx context.Context, pod *corev1.Pod, reason, message string, nominated *string) error {
	c := podstate.Condition(pod, corev1.PodScheduled)
	known := c != nil && c.Status == corev1.ConditionFalse && c.Reason == reason && c.Message == message
	if known && (nominated == nil || *nominated == pod.Status.NominatedNodeName) {
		return nil
	}
	if err := podstate.PatchStatus(ctx, r.client, pod, func(s *corev1.PodStatus) {
		podstate.SetCondition(s, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation,
		})
		if nominated != nil {
			s.NominatedNodeName = *nominated
		}
	}); err != nil {
		return err
	}
	if !known {
		r.recorder.Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", truncate(message))
	}
	return nil
}

// maxNote is the greatest length of the note of an event.
//
//upstream:pkg/apis/core/validation.NoteLengthLimit
const maxNote = 1024

// truncate returns a message that fits into an event.
//
//upstream:pkg/scheduler.truncateMessage
func truncate(message string) string {
	const suffix = " ..."
	if len(message) <= maxNote {
		return message
	}
	return message[:maxNote-len(suffix)] + suffix
}

// evict evicts the victims of a pod on a node, and takes the nominations back of pods of a lower priority that wait there, as far as it
// can.
//
//upstream:pkg/scheduler/framework/preemption.Executor.prepareCandidateAsync
//upstream:pkg/scheduler/framework/preemption.NewExecutor
func (r *reconciler) evict(ctx context.Context, pod *corev1.Pod, node string, victims []*framework.Pod) error {
	for _, key := range r.state.nominatedBelow(pod, node) {
		other := &corev1.Pod{}
		err := r.client.Get(ctx, key, other)
		if err == nil && other.Status.NominatedNodeName != "" {
			err = podstate.PatchStatus(ctx, r.client, other, func(s *corev1.PodStatus) { s.NominatedNodeName = "" })
		}
		if client.IgnoreNotFound(err) != nil {
			log.FromContext(ctx).Error(err, "Cannot take the nomination of a pod back", "of", key)
		}
	}
	victims = slices.DeleteFunc(slices.Clone(victims), func(v *framework.Pod) bool { return v.Terminating })
	for _, v := range victims {
		victim := &corev1.Pod{}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: v.Namespace, Name: v.Name}, victim)
		if err == nil && victim.UID == v.UID {
			err = r.evictOne(ctx, pod, node, victim)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// evictOne evicts a victim.
//
//upstream:pkg/scheduler/util.DeletePod
func (r *reconciler) evictOne(ctx context.Context, pod *corev1.Pod, node string, victim *corev1.Pod) error {
	err := podstate.PatchStatus(ctx, r.client, victim, func(s *corev1.PodStatus) {
		podstate.SetCondition(s, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.Now(), ObservedGeneration: victim.Generation,
			Message: pod.Spec.SchedulerName + ": preempting to accommodate a higher priority pod"})
	})
	if err == nil {
		err = r.client.Delete(ctx, victim, client.Preconditions{UID: &victim.UID})
	}
	if err != nil {
		return err
	}
	r.state.markPreempted(victim.UID)
	r.recorder.Eventf(victim, pod, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v", pod.UID, node)
	return nil
}
