// Package scheduler binds pods to nodes.
//
// It filters nodes by readiness, spec.unschedulable, taints and tolerations, the node selector, required
// node affinity, and the pods' requests against what is allocatable. A pod that fits nowhere stays
// Pending, with kube-scheduler's messages in its PodScheduled condition and in an event, and is tried again
// when a node changes or a pod makes room. Pods with scheduling gates or another scheduler's name are
// ignored. There is no support for pod affinity, topology spread, host ports, volumes and preemption.
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

// patience is how long a new pod waits for the first node of a cluster to be ready before it is reported
// as unschedulable.
const patience = 2 * time.Second

// AddToManager adds the scheduler. A pod that fits on the preferred node is bound there, because it is not
// certain that anything runs the pods of another.
func AddToManager(mgr manager.Manager, preferred string) error {
	r := &reconciler{
		client:   mgr.GetClient(),
		recorder: mgr.GetEventRecorder(corev1.DefaultSchedulerName),
		state:    newState(preferred),
	}
	return builder.ControllerManagedBy(mgr).
		Named("scheduler").
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(waits))).
		Watches(&corev1.Pod{}, r.podEvents()).
		Watches(&corev1.Node{}, r.nodeEvents()).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			r.queue = q
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
}

type reconciler struct {
	client   client.Client
	recorder recorder.EventRecorder
	state    *state
	queue    queue // set before the first Reconcile
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// podEvents updates the state. The informer calls it in order.
func (r *reconciler) podEvents() handler.EventHandler {
	observe := func(o client.Object, q queue) { again(q, r.state.observe(o.(*corev1.Pod))) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { observe(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				again(q, r.state.remove(e.ObjectOld.GetUID()))
			}
			observe(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.state.drop(client.ObjectKeyFromObject(e.Object))
			again(q, r.state.remove(e.Object.GetUID()))
		},
	}
}

func (r *reconciler) nodeEvents() handler.EventHandler {
	observe := func(o client.Object, q queue) { again(q, r.state.observeNode(o.(*corev1.Node))) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { observe(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { observe(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) { r.state.removeNode(e.Object.GetName()) },
	}
}

func again(q queue, pods []types.NamespacedName) {
	for _, key := range pods {
		q.Add(reconcile.Request{NamespacedName: key})
	}
}

// waits reports whether a pod waits for this scheduler.
func waits(o client.Object) bool {
	pod := o.(*corev1.Pod)
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !podstate.Finished(pod) &&
		pod.Spec.SchedulerName == corev1.DefaultSchedulerName && len(pod.Spec.SchedulingGates) == 0
}

// Reconcile binds one pod to a node, or reports why it is unschedulable.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !waits(pod) {
		return reconcile.Result{}, nil
	}
	node, why := r.state.assign(pod)
	if node == "" {
		if left := time.Until(pod.CreationTimestamp.Add(patience)); left > 0 && !r.state.ready() {
			return reconcile.Result{RequeueAfter: left}, nil
		}
		return reconcile.Result{}, client.IgnoreNotFound(r.report(ctx, pod, why))
	}
	return reconcile.Result{}, r.bind(ctx, pod, node)
}

func (r *reconciler) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	err := r.client.SubResource("binding").Create(ctx, pod, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	})
	if err == nil {
		r.recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %v/%v to %v", pod.Namespace, pod.Name, node)
		return nil
	}
	again(r.queue, r.state.forget(pod.UID))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // it was bound, gated or deleted meanwhile, and an event of that follows
	}
	return err
}

// report sets the PodScheduled condition to why the pod is unschedulable and records an event, unless the
// condition has that reason already.
func (r *reconciler) report(ctx context.Context, pod *corev1.Pod, why string) error {
	c := podstate.Condition(pod, corev1.PodScheduled)
	if c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && c.Message == why {
		return nil
	}
	now := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why,
		LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation,
	}
	switch {
	case c == nil:
		pod.Status.Conditions = append(pod.Status.Conditions, now)
	case c.Status == now.Status:
		now.LastTransitionTime = c.LastTransitionTime
		fallthrough
	default:
		*c = now
	}
	if err := r.client.Status().Update(ctx, pod); err != nil {
		return err
	}
	r.recorder.Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", why)
	return nil
}
