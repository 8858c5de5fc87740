// Package podgc is the pod garbage collector. It deletes orphaned pods, which are bound to nodes that do
// not exist, terminating pods that were never bound or are on nodes with the out-of-service taint, and
// the oldest terminated pods once there are more than a threshold.
//
// It sets the phase of a pod to Failed, unless the pod has terminated, and then deletes it with a grace
// period of zero, as no kubelet will confirm the deletion.
package podgc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// Quarantine is how long a pod may be bound to a node that does not exist, as in a real cluster: the
// node may have yet to be registered, or may be registered again.
const Quarantine = 40 * time.Second

// DefaultTerminatedPodThreshold is the threshold of kube-controller-manager.
const DefaultTerminatedPodThreshold = 12500

// Options configure the pod garbage collector.
type Options struct {
	// TerminatedPodThreshold is how many terminated pods are kept. Zero means
	// DefaultTerminatedPodThreshold, and a negative number that all are kept.
	TerminatedPodThreshold int
}

// AddToManager adds the controller.
func AddToManager(mgr manager.Manager, o Options) error {
	r := &reconciler{
		client:      mgr.GetClient(),
		live:        mgr.GetAPIReader(),
		threshold:   cmp.Or(o.TerminatedPodThreshold, DefaultTerminatedPodThreshold),
		nodes:       map[string]bool{},
		terminated:  map[types.NamespacedName]bool{},
		quarantined: map[types.UID]time.Time{},
	}
	return builder.ControllerManagedBy(mgr).
		Named("podgc").
		Watches(&corev1.Pod{}, r.podHandler()).
		Watches(&corev1.Node{}, r.nodeHandler()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// reconciler handles one pod, or, for the request allTerminated, all terminated pods. Most pods are never
// enqueued, as the event handlers enqueue only those that may have to be deleted.
type reconciler struct {
	client    client.Client
	live      client.Reader
	threshold int

	mu          sync.Mutex
	nodes       map[string]bool // of those that exist, whether they are in service
	terminated  map[types.NamespacedName]bool
	quarantined map[types.UID]time.Time // since when the node of a pod is known not to exist
}

var allTerminated reconcile.Request

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

func (r *reconciler) podHandler() handler.EventHandler {
	seen := func(obj client.Object, queue requests) {
		pod := obj.(*corev1.Pod)
		r.mu.Lock()
		defer r.mu.Unlock()
		if podstate.Finished(pod) {
			r.terminated[client.ObjectKeyFromObject(pod)] = true
			if r.threshold > 0 && len(r.terminated) > r.threshold {
				queue.Add(allTerminated)
			}
		}
		if bound := pod.Spec.NodeName != ""; bound && !r.nodes[pod.Spec.NodeName] || !bound && pod.DeletionTimestamp != nil {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue requests) { seen(e.Object, queue) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue requests) { seen(e.ObjectNew, queue) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ requests) {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.terminated, client.ObjectKeyFromObject(e.Object))
			delete(r.quarantined, e.Object.GetUID())
		},
	}
}

func (r *reconciler) nodeHandler() handler.EventHandler {
	seen := func(ctx context.Context, obj client.Object, queue requests) {
		node := obj.(*corev1.Node)
		r.mu.Lock()
		was, known := r.nodes[node.Name]
		r.nodes[node.Name] = !outOfService(node)
		now := r.nodes[node.Name]
		r.mu.Unlock()
		if !now && (was || !known) {
			r.lookAtPodsOn(ctx, node.Name, queue)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue requests) { seen(ctx, e.Object, queue) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue requests) { seen(ctx, e.ObjectNew, queue) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue requests) {
			r.mu.Lock()
			delete(r.nodes, e.Object.GetName())
			r.mu.Unlock()
			r.lookAtPodsOn(ctx, e.Object.GetName(), queue)
		},
	}
}

func (r *reconciler) lookAtPodsOn(ctx context.Context, node string, queue requests) {
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the pods of a node", "node", node)
		return
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
		}
	}
}

// Reconcile deletes a pod, or the excess terminated pods, if they are due.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req == allTerminated {
		return reconcile.Result{}, r.collectTerminated(ctx)
	}
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var node *corev1.Node
	if pod.Spec.NodeName != "" {
		node = &corev1.Node{}
		err := r.client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)
		switch {
		case apierrors.IsNotFound(err):
			node = nil
		case err != nil:
			return reconcile.Result{}, err
		}
	}
	why, after := judge(pod, node, r.missingFor(pod, node))
	if why == orphaned {
		// The cache may be stale, so confirm it with a live read.
		err := r.live.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &corev1.Node{})
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
	}
	if why == keep {
		return reconcile.Result{RequeueAfter: after}, nil
	}
	return reconcile.Result{}, r.remove(ctx, pod, why)
}

// missingFor returns for how long the node of a pod has been known not to exist.
func (r *reconciler) missingFor(pod *corev1.Pod, node *corev1.Node) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pod.Spec.NodeName == "" || node != nil {
		delete(r.quarantined, pod.UID)
		return 0
	}
	since, ok := r.quarantined[pod.UID]
	if !ok {
		since = time.Now()
		r.quarantined[pod.UID] = since
	}
	return time.Since(since)
}

// collectTerminated deletes the terminated pods in excess of the threshold.
func (r *reconciler) collectTerminated(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods); err != nil {
		return err
	}
	ended := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !podstate.Finished(&p) })
	slices.SortFunc(ended, firstToGo)
	var errs []error
	for i := range max(len(ended)-r.threshold, 0) {
		if !removed(&ended[i]) {
			errs = append(errs, r.remove(ctx, &ended[i], tooMany))
		}
	}
	return errors.Join(errs...)
}

// remove sets the phase of a pod to Failed and deletes it without a grace period.
func (r *reconciler) remove(ctx context.Context, pod *corev1.Pod, why verdict) error {
	log.FromContext(ctx).Info("Deleting a pod by force", "pod", client.ObjectKeyFromObject(pod), "node", pod.Spec.NodeName, "reason", why.String())
	if !podstate.Finished(pod) {
		before := pod.DeepCopy()
		fail(pod, why, time.Now())
		// The optimistic lock ensures that it is the same pod, unchanged.
		patch := client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
		if err := r.client.Status().Patch(ctx, pod, patch); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	err := r.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	return client.IgnoreNotFound(err)
}
