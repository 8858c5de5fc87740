// Package tainteviction deletes the pods of nodes with taints of the effect NoExecute. It deletes a pod that does not tolerate
// all of these taints at once, and a pod that tolerates them for a while after that time. Pods that have terminated are deleted
// too.
//
// As in kube-controller-manager, the time starts when the controller sees the pod on the tainted node, so it starts again with
// the controller. It ends as it was determined then, whatever taints and tolerations are added, unless the pod tolerates
// the taints for ever or not at all. The deletion of the node does not cancel it.
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
	if err := podstate.IndexNodes(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
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
	taints    map[string][]corev1.Taint // by the nodes that exist
	scheduled map[types.NamespacedName]eviction
}

// eviction is the future eviction of a pod that tolerates the taints of its node for a while.
type eviction struct {
	uid types.UID
	at  time.Time
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
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			r.cancel(client.ObjectKeyFromObject(e.Object))
		},
	}
}

// nodeHandler returns the handler of the events of nodes.
//
//upstream:pkg/controller/tainteviction.Controller.NodeUpdated
func (r *reconciler) nodeHandler() handler.EventHandler {
	set := func(o client.Object, q queue) {
		if node := o.(*corev1.Node); r.setTaints(node.Name, noExecute(node)) {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: node.Name}})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { set(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { set(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.taints, e.Object.GetName())
		},
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

// concerns reports whether a pod may have to be evicted, or its eviction is scheduled.
func (r *reconciler) concerns(pod types.NamespacedName, node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, scheduled := r.scheduled[pod]
	return scheduled || len(r.taints[node]) > 0
}

// setTaints sets the taints of a node, and reports whether the node had others before.
func (r *reconciler) setTaints(node string, taints []corev1.Taint) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.taints[node]
	r.taints[node] = taints
	return !equality.Semantic.DeepEqual(before, taints)
}

// taintsOf returns the taints of a node, which must not be changed, and whether the node exists.
func (r *reconciler) taintsOf(node string) (taints []corev1.Taint, exists bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	taints, exists = r.taints[node]
	return taints, exists
}

// schedule schedules the eviction of a pod.
func (r *reconciler) schedule(pod *corev1.Pod, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scheduled[client.ObjectKeyFromObject(pod)] = eviction{pod.UID, at}
}

// scheduledAt returns the time of the scheduled eviction of a pod.
func (r *reconciler) scheduledAt(pod *corev1.Pod) (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.scheduled[client.ObjectKeyFromObject(pod)]
	return e.at, ok && e.uid == pod.UID
}

// cancel cancels the eviction of a pod, with an event if it was scheduled.
//
//upstream:pkg/controller/tainteviction.Controller.cancelWorkWithEvent
//upstream:pkg/controller/tainteviction.Controller.emitCancelPodDeletionEvent
func (r *reconciler) cancel(pod types.NamespacedName) {
	if r.unschedule(pod) {
		r.recorder.Eventf(reference(pod), corev1.EventTypeNormal, reason, "Cancelling deletion of Pod %s", pod)
	}
}

// unschedule forgets the eviction of a pod, and reports whether there was one.
func (r *reconciler) unschedule(pod types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, scheduled := r.scheduled[pod]
	delete(r.scheduled, pod)
	return scheduled
}

// reference returns the pod of an event. It has no UID, as the pod may be gone.
func reference(pod types.NamespacedName) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
}

// Reconcile evicts a pod or schedules its eviction, or enqueues the pods of a node.
//
//upstream:pkg/controller/tainteviction.Controller.processPodOnNode
//upstream:pkg/controller/tainteviction.Controller.handlePodUpdate
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Namespace == "" {
		return reconcile.Result{}, r.enqueuePods(ctx, req.Name)
	}
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		if apierrors.IsNotFound(err) {
			r.cancel(req.NamespacedName) // a reconcile may have scheduled it after the event of the deletion
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := time.Now()
	at, scheduled := r.scheduledAt(pod)
	taints, exists := r.taintsOf(pod.Spec.NodeName)
	after, tolerated := tolerationTime(pod.Spec.Tolerations, taints)
	switch {
	case scheduled && !now.Before(at):
		return reconcile.Result{}, r.evict(ctx, pod)
	case !exists:
	case !tolerated:
		r.cancel(req.NamespacedName)
		return reconcile.Result{}, r.evict(ctx, pod)
	case after == forever:
		r.cancel(req.NamespacedName)
		scheduled = false
	case scheduled:
	case after == 0:
		return reconcile.Result{}, r.evict(ctx, pod)
	default:
		at, scheduled = now.Add(after), true
		r.schedule(pod, at)
	}
	if !scheduled {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: at.Sub(now)}, nil
}

// reason is the reason of events, as kube-controller-manager records them.
const reason = "TaintManagerEviction"

// enqueuePods enqueues all pods on a node.
//
//upstream:pkg/controller/tainteviction.Controller.handleNodeUpdate
func (r *reconciler) enqueuePods(ctx context.Context, node string) error {
	pods, err := podstate.OnNode(ctx, r.client, node)
	for i := range pods {
		r.queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods[i])})
	}
	return err
}

// forever is the time for which a pod tolerates taints without a limit.
const forever time.Duration = -1

// tolerationTime returns whether a pod with these tolerations tolerates all taints, and for how long.
//
//upstream:pkg/controller/tainteviction.getMinTolerationTime
//upstream:pkg/apis/core/v1/helper.GetMatchingTolerations
func tolerationTime(tolerations []corev1.Toleration, taints []corev1.Taint) (after time.Duration, tolerated bool) {
	after = forever
	for i := range taints {
		t := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Background(), &taints[i], false) })
		if t < 0 {
			return 0, false
		}
		if seconds := tolerations[t].TolerationSeconds; seconds != nil {
			limit := time.Duration(max(0, *seconds)) * time.Second
			if after == forever || limit < after {
				after = limit
			}
		}
	}
	return after, true
}

// evict deletes a pod, with the condition that says why. After an error the eviction is due.
//
//upstream:pkg/controller/tainteviction.addConditionAndDeletePod
//upstream:pkg/controller/tainteviction.Controller.emitPodDeletionEvent
func (r *reconciler) evict(ctx context.Context, pod *corev1.Pod) error {
	key := client.ObjectKeyFromObject(pod)
	status := pod.Status.DeepCopy()
	if podstate.SetCondition(status, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation,
	}) {
		if err := podstate.PatchStatus(ctx, r.client, pod, func(s *corev1.PodStatus) { *s = *status }); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	r.recorder.Eventf(reference(key), corev1.EventTypeNormal, reason, "Marking for deletion Pod %s", key)
	r.unschedule(key) // before the event of the deletion, which cancels
	if err := r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
		r.schedule(pod, time.Now())
		return err
	}
	return nil
}
