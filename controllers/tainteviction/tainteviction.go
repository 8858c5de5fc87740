// Package tainteviction deletes the pods of nodes with taints of the effect NoExecute: those that do
// not tolerate all of these at once, and those that tolerate them for a while after that time. Pods that have terminated
// are deleted too.
//
// The time starts when the controller sees the pod on the tainted node, so it starts again with the
// controller, as in kube-controller-manager.
package tainteviction

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// AddToManager adds the controller.
//
//upstream:pkg/controller/tainteviction.New
func AddToManager(mgr manager.Manager) error {
	r := &reconciler{
		client: mgr.GetClient(), recorder: events.RecorderFor(mgr, "taint-eviction-controller"),
		taints: map[string][]corev1.Taint{}, scheduled: map[types.NamespacedName]eviction{},
	}
	return builder.ControllerManagedBy(mgr).
		Named("taint-eviction").
		Watches(&corev1.Pod{}, r.podHandler()).
		Watches(&corev1.Node{}, r.nodeHandler()).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			r.queue = q
			return nil
		})).
		Complete(r)
}

// reconciler reconciles a pod, or, for a request without a namespace, all pods on a node. The event
// handlers enqueue only pods on tainted nodes, and nodes with other taints than before.
type reconciler struct {
	client   client.Client
	recorder record.EventRecorder
	queue    queue // set before the first Reconcile

	mu        sync.Mutex
	taints    map[string][]corev1.Taint // by node, if it has any
	scheduled map[types.NamespacedName]eviction
}

// eviction is a pod that tolerates the taints of its node for a while.
type eviction struct {
	uid   types.UID
	since time.Time
}

// queue is the queue of the controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// podHandler returns the handler of the events of pods.
//
//upstream:pkg/controller/tainteviction.Controller.PodUpdated
func (r *reconciler) podHandler() handler.EventHandler {
	enqueue := func(o client.Object, q queue) {
		if key := client.ObjectKeyFromObject(o); r.concerns(key, o.(*corev1.Pod).Spec.NodeName) {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueue(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			old, pod := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			if old.Spec.NodeName != pod.Spec.NodeName || !equality.Semantic.DeepEqual(old.Spec.Tolerations, pod.Spec.Tolerations) {
				enqueue(pod, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) { r.cancel(client.ObjectKeyFromObject(e.Object)) },
	}
}

// nodeHandler returns the handler of the events of nodes.
//
//upstream:pkg/controller/tainteviction.Controller.NodeUpdated
func (r *reconciler) nodeHandler() handler.EventHandler {
	set := func(o client.Object, taints []corev1.Taint, q queue) {
		if r.setTaints(o.GetName(), taints) {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: o.GetName()}})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			set(e.Object, noExecute(e.Object.(*corev1.Node)), q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			set(e.ObjectNew, noExecute(e.ObjectNew.(*corev1.Node)), q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { set(e.Object, nil, q) },
	}
}

// noExecute returns the taints of a node that evict pods.
//
//upstream:pkg/controller/tainteviction.getNoExecuteTaints
func noExecute(node *corev1.Node) (taints []corev1.Taint) {
	for _, t := range node.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			taints = append(taints, *t.DeepCopy())
		}
	}
	return taints
}

// concerns reports whether a pod may have to be evicted, or is to be.
func (r *reconciler) concerns(pod types.NamespacedName, node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, scheduled := r.scheduled[pod]
	return scheduled || len(r.taints[node]) > 0
}

// setTaints sets the taints of a node, and reports whether they are others than before.
func (r *reconciler) setTaints(node string, taints []corev1.Taint) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if equality.Semantic.DeepEqual(r.taints[node], taints) {
		return false
	}
	if r.taints[node] = taints; len(taints) == 0 {
		delete(r.taints, node)
	}
	return true
}

// taintsOf returns the taints of a node, which must not be changed.
func (r *reconciler) taintsOf(node string) []corev1.Taint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taints[node]
}

// since returns since when a pod is to be evicted after a while, which is now for one that was not.
func (r *reconciler) since(pod *corev1.Pod, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	if e, ok := r.scheduled[key]; ok && e.uid == pod.UID {
		return e.since
	}
	r.scheduled[key] = eviction{pod.UID, now}
	return now
}

// cancel makes a pod no longer one that is to be evicted, and reports whether it was.
//
//upstream:pkg/controller/tainteviction.Controller.cancelWorkWithEvent
func (r *reconciler) cancel(pod types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, scheduled := r.scheduled[pod]
	delete(r.scheduled, pod)
	return scheduled
}

// Reconcile evicts a pod that does not tolerate the taints of its node, or enqueues the pods of a node.
//
//upstream:pkg/controller/tainteviction.Controller.processPodOnNode
//upstream:pkg/controller/tainteviction.Controller.emitCancelPodDeletionEvent
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Namespace == "" {
		return reconcile.Result{}, r.enqueuePods(ctx, req.Name)
	}
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		if apierrors.IsNotFound(err) {
			r.cancel(req.NamespacedName) // a reconcile may have put it back after the event of the deletion
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	after, evict := tolerates(pod.Spec.Tolerations, r.taintsOf(pod.Spec.NodeName))
	if after > 0 {
		now := time.Now()
		after = r.since(pod, now).Add(after).Sub(now)
		evict = after <= 0
	}
	switch {
	case evict:
		if err := client.IgnoreNotFound(r.evict(ctx, pod)); err != nil {
			return reconcile.Result{}, err // the time of toleration does not begin again
		}
		r.cancel(req.NamespacedName)
		return reconcile.Result{}, nil
	case after > 0:
		return reconcile.Result{RequeueAfter: after}, nil
	}
	if r.cancel(req.NamespacedName) {
		r.recorder.Eventf(pod, corev1.EventTypeNormal, reason, "Cancelling deletion of Pod %s", req)
	}
	return reconcile.Result{}, nil
}

// reason is the reason of events, as kube-controller-manager records them.
const reason = "TaintManagerEviction"

// enqueuePods enqueues all pods on a node.
//
//upstream:pkg/controller/tainteviction.Controller.handleNodeUpdate
func (r *reconciler) enqueuePods(ctx context.Context, node string) error {
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods); err != nil {
		return err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName == node {
			r.queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
		}
	}
	return nil
}

// tolerates returns whether a pod with these tolerations is evicted from a node with these taints at
// once, or, if after is not zero, after that time.
//
//upstream:pkg/controller/tainteviction.getMinTolerationTime
//upstream:pkg/apis/core/v1/helper.GetMatchingTolerations
func tolerates(tolerations []corev1.Toleration, taints []corev1.Taint) (after time.Duration, evict bool) {
	for i := range taints {
		t := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Background(), &taints[i], false) })
		if t < 0 {
			return 0, true
		}
		seconds := tolerations[t].TolerationSeconds
		switch {
		case seconds == nil:
		case *seconds <= 0:
			evict = true
		default:
			if limit := time.Duration(*seconds) * time.Second; after == 0 || limit < after {
				after = limit
			}
		}
	}
	if evict {
		after = 0
	}
	return after, evict
}

// evict deletes a pod, with the condition that says why.
//
//upstream:pkg/controller/tainteviction.addConditionAndDeletePod
//upstream:pkg/controller/tainteviction.Controller.emitPodDeletionEvent
func (r *reconciler) evict(ctx context.Context, pod *corev1.Pod) error {
	if err := podstate.PatchStatus(ctx, r.client, pod, func(s *corev1.PodStatus) {
		podstate.SetCondition(s, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
			Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation,
		})
	}); err != nil {
		return err
	}
	r.recorder.Eventf(pod, corev1.EventTypeNormal, reason, "Marking for deletion Pod %s/%s", pod.Namespace, pod.Name)
	return r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
}
