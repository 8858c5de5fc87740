// Package scheduler binds pods to nodes.
//
// It filters nodes by readiness, spec.unschedulable, taints and tolerations, the node selector,
// required node affinity, host ports, and the requests of the pods and the allocatable resources. An
// unschedulable pod stays Pending, with kube-scheduler's messages in its PodScheduled condition and
// in an event, and is retried when a node changes or a pod frees resources. Pods with scheduling
// gates or another scheduler's name are ignored. There is no support for pod affinity, topology
// spread and preemption.
//
// A pod with a claim that does not exist or is not bound is unschedulable too, unless the claim waits
// for the pod, and is retried when the claim changes. Where the volumes are is not considered.
package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/recorder"
	"flyball.dev/ctrl/source"
)

// nodeReadyTimeout is how long a new pod waits for the first ready node of the cluster before it is
// reported as unschedulable.
const nodeReadyTimeout = 2 * time.Second

// AddToManager adds the scheduler. A pod is bound to the preferred node if it fits there, because
// other nodes may have no kubelet.
//
//upstream:pkg/scheduler.New
func AddToManager(mgr manager.Manager, preferred string) error {
	if err := podstate.IndexClaims(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &reconciler{
		client:   mgr.GetClient(),
		recorder: mgr.GetEventRecorder(corev1.DefaultSchedulerName),
		state:    newState(preferred),
	}
	return builder.ControllerManagedBy(mgr).
		Named("scheduler").
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return needsScheduling(o.(*corev1.Pod))
		}))).
		Watches(&corev1.Pod{}, r.podEvents()).
		Watches(&corev1.Node{}, r.nodeEvents()).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(podstate.UserRequests(r.client, needsScheduling))).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			r.queue = q
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
}

// reconciler schedules pods.
type reconciler struct {
	client   client.Client
	recorder recorder.EventRecorder
	state    *state
	queue    queue // set before the first Reconcile
}

// queue is the queue of the controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// podEvents returns the handler that updates the state with pods. It relies on the order of their
// events.
//
//upstream:pkg/scheduler.addAllEventHandlers
func (r *reconciler) podEvents() handler.EventHandler {
	update := func(o client.Object, q queue) { requeue(q, r.state.updatePod(o.(*corev1.Pod))) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { update(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				requeue(q, r.state.removePod(e.ObjectOld.GetUID()))
			}
			update(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.state.removeUnschedulable(client.ObjectKeyFromObject(e.Object))
			requeue(q, r.state.removePod(e.Object.GetUID()))
		},
	}
}

// nodeEvents returns the handler that updates the state with nodes.
func (r *reconciler) nodeEvents() handler.EventHandler {
	update := func(o client.Object, q queue) { requeue(q, r.state.updateNode(o.(*corev1.Node))) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { update(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { update(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) { r.state.removeNode(e.Object.GetName()) },
	}
}

// requeue adds pods to the queue.
func requeue(q queue, pods []types.NamespacedName) {
	for _, key := range pods {
		q.Add(reconcile.Request{NamespacedName: key})
	}
}

// needsScheduling reports whether a pod is to be scheduled by this scheduler.
//
//upstream:pkg/scheduler.responsibleForPod
func needsScheduling(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !podstate.Finished(pod) &&
		pod.Spec.SchedulerName == corev1.DefaultSchedulerName && len(pod.Spec.SchedulingGates) == 0
}

// Reconcile binds one pod to a node, or reports why it is unschedulable.
//
//upstream:pkg/scheduler.Scheduler.ScheduleOne
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !needsScheduling(pod) || r.state.isAssumed(pod.UID) { // its binding is still to be observed
		return reconcile.Result{}, nil
	}
	if message, err := r.missingClaim(ctx, pod); message != "" || err != nil {
		if err == nil {
			err = r.recordUnschedulable(ctx, pod, r.state.unresolvable(message))
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	node, message := r.state.schedule(pod)
	if node == "" {
		if left := time.Until(pod.CreationTimestamp.Add(nodeReadyTimeout)); left > 0 && !r.state.ready() {
			return reconcile.Result{RequeueAfter: left}, nil
		}
		return reconcile.Result{}, client.IgnoreNotFound(r.recordUnschedulable(ctx, pod, message))
	}
	return reconcile.Result{}, r.bind(ctx, pod, node)
}

// bind binds a pod to its node. If that fails, the pod is not assumed there any longer.
//
// The response does not contain the pod, so that read-your-writes consistency would take a live
// read. It is not needed: the pod is assumed on its node, and cannot be bound twice.
//
//upstream:pkg/scheduler/framework/plugins/defaultbinder.DefaultBinder.Bind
//upstream:pkg/scheduler.Scheduler.bindingCycle
func (r *reconciler) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	err := r.client.SubResource("binding").Create(ctx, pod, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, client.DisableReadYourWritesConsistency)
	if err == nil {
		r.recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding",
			"Successfully assigned %v/%v to %v", pod.Namespace, pod.Name, node)
		return nil
	}
	requeue(r.queue, r.state.forgetPod(pod.UID))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // it was bound, gated or deleted meanwhile, which causes another event
	}
	return err
}

// recordUnschedulable sets the PodScheduled condition of a pod to False and records an event,
// unless the condition has that message already.
//
//upstream:pkg/scheduler.Scheduler.handleSchedulingFailure
func (r *reconciler) recordUnschedulable(ctx context.Context, pod *corev1.Pod, message string) error {
	if c := podstate.Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && c.Message == message {
		return nil
	}
	if err := podstate.PatchStatus(ctx, r.client, pod, func(s *corev1.PodStatus) {
		podstate.SetCondition(s, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
			LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation,
		})
	}); err != nil {
		return err
	}
	r.recorder.Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", message)
	return nil
}
