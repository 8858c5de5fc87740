// Package nodelifecycle watches the health of nodes.
//
// A node becomes unreachable when its kubelet no longer renews the lease: its conditions become Unknown after 50 to 60 seconds, and
// its pods are not ready any longer. Nodes get taints by their conditions, so that no pods are scheduled to them. Nodes that
// are not ready or unreachable also get a taint that evicts their pods, at a rate that depends on the health of the zone. If
// no node of the cluster is ready, the cause is more likely the control plane, and no pods are evicted.
//
// The time starts when the controller sees a node, so it starts again with the controller, as in kube-controller-manager.
package nodelifecycle

import (
	"context"
	"errors"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/nodestate"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/controllers/internal/restore"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// AddToManager adds the controller.
//
//upstream:pkg/controller/nodelifecycle.NewNodeLifecycleController
func AddToManager(mgr manager.Manager) error {
	if err := podstate.IndexNodes(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: events.RecorderFor(mgr, "node-controller"),
		health: map[string]*health{}, renewals: map[string]*renewal{}, zones: newZones(time.Now()),
	}
	return builder.ControllerManagedBy(mgr).
		Named("node-lifecycle").
		For(&corev1.Node{}).
		Watches(&corev1.Pod{}, r.podEvents()).
		Watches(&coordinationv1.Lease{}, r.leaseEvents()).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			r.queue = q
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// queue is the queue of the controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// reconciler reconciles a node or, for a request with a namespace, a pod on a node that is not ready.
type reconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
	queue    queue // set before the first Reconcile
	restored restore.Once

	mu       sync.Mutex
	health   map[string]*health  // by node
	renewals map[string]*renewal // by node
	zones    *zones
}

// leaseEvents returns the handler that records the renewals of leases. A renewal itself requires no reconcile.
func (r *reconciler) leaseEvents() handler.EventHandler {
	observe := func(o client.Object) {
		lease := o.(*coordinationv1.Lease)
		if lease.Namespace != corev1.NamespaceNodeLease {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.renewal(lease.Name).observe(lease, r.zones.look(time.Now()))
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) { observe(e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) { observe(e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if name := e.Object.GetName(); r.health[name] == nil {
				delete(r.renewals, name)
			}
		},
	}
}

// podEvents returns the handler that enqueues pods which are bound to a node that is not ready.
//
//upstream:pkg/controller/nodelifecycle.Controller.podUpdated
func (r *reconciler) podEvents() handler.EventHandler {
	enqueue := func(o client.Object, q queue) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if h := r.health[o.(*corev1.Pod).Spec.NodeName]; h != nil && h.unready {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueue(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.(*corev1.Pod).Spec.NodeName != e.ObjectNew.(*corev1.Pod).Spec.NodeName {
				enqueue(e.ObjectNew, q)
			}
		},
	}
}

// Reconcile sets the conditions, the labels and the taints of one node, and its pods' readiness.
//
//upstream:pkg/controller/nodelifecycle.Controller.monitorNodeHealth
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Namespace != "" {
		return reconcile.Result{}, r.reconcilePod(ctx, req)
	}
	if err := r.restored.Do(ctx, r.restore); err != nil {
		return reconcile.Result{}, err
	}
	node := &corev1.Node{}
	if err := r.client.Get(ctx, req.NamespacedName, node); err != nil {
		if apierrors.IsNotFound(err) {
			r.remove(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if r.observe(node) {
		r.recorder.Eventf(reference(node.Name, node), corev1.EventTypeNormal, "RegisteredNode",
			"Node %[1]s event: Registered Node %[1]s in Controller", node.Name)
	}
	after, err := r.reconcileNode(ctx, node)
	return requeue.After(after, client.IgnoreNotFound(err))
}

// restore adds all nodes to their zones, so that the first nodes are not taken for all nodes.
func (r *reconciler) restore(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := r.client.List(ctx, nodes); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.zones.advance(now)
	for i := range nodes.Items {
		r.zones.place(&nodes.Items[i], false)
	}
	r.zones.update(now)
	return nil
}

// reconcileNode sets the conditions, the labels and the taints of a node, and the readiness of its pods. It returns the time
// until the next change without an event.
func (r *reconciler) reconcileNode(ctx context.Context, node *corev1.Node) (after time.Duration, err error) {
	after, skipped, err := r.checkHealth(ctx, node)
	if err != nil {
		return after, err
	}
	r.setZone(node, skipped)
	if r.setReadiness(node) {
		if err := r.markPodsNotReady(ctx, node); err != nil {
			return after, err
		}
	}
	next, err := r.reconcileSpec(ctx, node)
	if next > 0 && (after == 0 || next < after) {
		after = next
	}
	return after, err
}

// checkHealth makes the conditions of a node Unknown if its kubelet has given no sign of life for too long, and otherwise
// returns the time until then. It skips a node with a lease that was written since the last sign of life, because the cache of leases may
// be stale. As in Kubernetes, this includes a lease that was renewed by a clock ahead, until the clocks of others have caught up.
//
//upstream:pkg/controller/nodelifecycle.Controller.tryUpdateNodeHealth
func (r *reconciler) checkHealth(ctx context.Context, node *corev1.Node) (after time.Duration, skipped bool, err error) {
	now := time.Now()
	left, version := r.untilOverdue(node, now)
	if left > 0 {
		return left, false, nil
	}
	if c := condition(node); c != nil && c.Status == corev1.ConditionUnknown {
		return 0, false, nil // a sign of life is an event of the node
	}
	lease := &coordinationv1.Lease{}
	err = r.live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, lease)
	if err == nil && lease.ResourceVersion != version {
		return monitorPeriod, true, nil // Kubernetes looks again then
	}
	if client.IgnoreNotFound(err) != nil {
		return 0, false, err
	}
	ready := nodestate.Ready(node)
	node.Status.Conditions = unknownConditions(node, now)
	if err := r.client.Status().Update(ctx, node); err != nil {
		return 0, false, err
	}
	r.record(node)
	if ready {
		r.setMark(node.Name, true)
		r.recorder.Eventf(reference(node.Name, node), corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", node.Name)
	}
	return 0, false, nil
}

// reconcileSpec sets the labels and the taints of a node. It returns the time until the node may get a taint that evicts its
// pods, if that time has not come.
func (r *reconciler) reconcileSpec(ctx context.Context, node *corev1.Node) (after time.Duration, err error) {
	now := time.Now()
	taints := nodestate.Taints(node)
	evicts := evictingTaint(node)
	tainted := evicts != "" && (hasTaint(taints, evicts) || hasTaint(taints, opposite(evicts)))
	swaps := evicts != "" && hasTaint(taints, opposite(evicts))
	loses, outage := r.losesTaints(node, swaps, now)
	if loses {
		evicts = ""
	}
	if evicts != "" && !tainted {
		if after = r.untilEviction(node, now); after != 0 {
			evicts = ""
		}
	}
	if condition(node) != nil || !r.isRegistered(node.Name) || loses {
		taints = setEvictingTaint(taints, evicts, now)
	}
	taints = withTimes(taints, node.Spec.Taints, now)
	labelled := nodestate.SetDeprecatedLabels(node)
	if labelled || !equality.Semantic.DeepEqual(taints, node.Spec.Taints) {
		node.Spec.Taints = taints
		err = r.client.Update(ctx, node)
	}
	if err == nil {
		r.tainted(node, outage, swaps && evicts != "", now)
	}
	if loses && err == nil {
		after = 1 // Kubernetes adds a taint at its next look, where evictions have not stopped
	}
	return max(after, 0), err
}

// markPodsNotReady makes the pods on a node with a silent kubelet not ready. A kubelet that is not ready does so itself.
//
//upstream:pkg/controller/util/node.MarkPodsNotReady
func (r *reconciler) markPodsNotReady(ctx context.Context, node *corev1.Node) error {
	pods, err := podstate.OnNode(ctx, r.client, node.Name)
	errs := []error{err}
	for i := range pods {
		errs = append(errs, r.markNotReady(ctx, &pods[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.setMark(node.Name, false)
	return nil
}

// markNotReady makes a pod not ready.
func (r *reconciler) markNotReady(ctx context.Context, pod *corev1.Pod) error {
	c := podstate.Condition(pod, corev1.PodReady)
	if c == nil || c.Status == corev1.ConditionFalse {
		return nil
	}
	err := podstate.PatchStatus(ctx, r.client, pod, func(s *corev1.PodStatus) {
		not := *c
		not.Status, not.LastTransitionTime = corev1.ConditionFalse, metav1.Now()
		podstate.SetCondition(s, not)
	})
	if err == nil {
		r.recorder.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
	return client.IgnoreNotFound(err)
}

// reconcilePod makes a pod that was bound to a node which is not ready not ready.
//
//upstream:pkg/controller/nodelifecycle.Controller.processPod
func (r *reconciler) reconcilePod(ctx context.Context, req reconcile.Request) error {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !r.isUnready(pod.Spec.NodeName) {
		return nil
	}
	return r.markNotReady(ctx, pod)
}

// reference returns the object of events about a node.
//
//upstream:pkg/controller/util/node.RecordNodeEvent
func reference(name string, node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}
}
