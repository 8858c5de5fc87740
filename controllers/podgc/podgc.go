// Package podgc is the pod garbage collector. It deletes orphaned pods, which are bound to nodes
// that do not exist, terminating pods that were never bound or are on nodes with the out-of-service
// taint, and the oldest terminated pods if there are more than a threshold.
//
// It sets the phase of a pod to Failed, unless the pod has terminated, and then deletes it with a
// grace period of zero, as no kubelet will confirm the deletion.
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

// Quarantine is how long a pod may be bound to a node that does not exist, as in
// kube-controller-manager: the node may be registered later, or again.
//
//upstream:pkg/controller/podgc.quarantineTime
const Quarantine = 40 * time.Second

// period is the time from an event until the terminated pods are counted. A pod that the controller fails before it deletes
// it is then gone. Kubernetes counts in this period.
//
//upstream:pkg/controller/podgc.gcCheckPeriod
const period = 20 * time.Second

// DefaultTerminatedPodThreshold is the threshold of kube-controller-manager.
//
//upstream:pkg/controller/podgc/config/v1alpha1.RecommendedDefaultPodGCControllerConfiguration
const DefaultTerminatedPodThreshold = 12500

// Options configure the pod garbage collector.
type Options struct {
	// TerminatedPodThreshold is how many terminated pods are kept. Zero means
	// DefaultTerminatedPodThreshold, and a negative number that all are kept.
	TerminatedPodThreshold int
}

// AddToManager adds the controller.
//
//upstream:pkg/controller/podgc.NewPodGC
func AddToManager(mgr manager.Manager, o Options) error {
	if err := podstate.IndexNodes(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
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

// reconciler reconciles one pod or, for the request allTerminated, all terminated pods. The event
// handlers enqueue only the pods that may have to be deleted.
type reconciler struct {
	client    client.Client
	live      client.Reader
	threshold int

	mu          sync.Mutex
	nodes       map[string]bool // those that exist, and whether they are in service
	terminated  map[types.NamespacedName]bool
	quarantined map[types.UID]time.Time // since when the node of a pod is known not to exist
}

// allTerminated is the request for all terminated pods.
var allTerminated reconcile.Request

// requests is the queue of the controller.
type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// podHandler updates the terminated pods, and enqueues pods that may have to be deleted.
func (r *reconciler) podHandler() handler.EventHandler {
	observe := func(obj client.Object, queue requests) {
		pod := obj.(*corev1.Pod)
		r.mu.Lock()
		defer r.mu.Unlock()
		if podstate.Finished(pod) {
			r.terminated[client.ObjectKeyFromObject(pod)] = true
			if r.threshold > 0 && len(r.terminated) > r.threshold {
				queue.AddAfter(allTerminated, period)
			}
		}
		if bound := pod.Spec.NodeName != ""; bound && !r.nodes[pod.Spec.NodeName] || !bound && pod.DeletionTimestamp != nil {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue requests) { observe(e.Object, queue) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue requests) { observe(e.ObjectNew, queue) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ requests) {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.terminated, client.ObjectKeyFromObject(e.Object))
			delete(r.quarantined, e.Object.GetUID())
		},
	}
}

// nodeHandler updates the nodes, and enqueues the pods of nodes that are deleted or out of service.
func (r *reconciler) nodeHandler() handler.EventHandler {
	observe := func(ctx context.Context, obj client.Object, queue requests) {
		node := obj.(*corev1.Node)
		r.mu.Lock()
		was, known := r.nodes[node.Name]
		r.nodes[node.Name] = !outOfService(node)
		now := r.nodes[node.Name]
		r.mu.Unlock()
		if !now && (was || !known) {
			r.enqueuePodsOn(ctx, node.Name, queue)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue requests) { observe(ctx, e.Object, queue) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue requests) { observe(ctx, e.ObjectNew, queue) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue requests) {
			r.mu.Lock()
			delete(r.nodes, e.Object.GetName())
			r.mu.Unlock()
			r.enqueuePodsOn(ctx, e.Object.GetName(), queue)
		},
	}
}

// enqueuePodsOn enqueues all pods of a node.
func (r *reconciler) enqueuePodsOn(ctx context.Context, node string, queue requests) {
	pods, err := podstate.OnNode(ctx, r.client, node)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the pods of a node", "node", node)
		return
	}
	for i := range pods {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods[i])})
	}
}

// Reconcile deletes a pod if there is a reason, or the terminated pods in excess of the threshold.
//
//upstream:pkg/controller/podgc.PodGCController.gcTerminating
//upstream:pkg/controller/podgc.PodGCController.gcOrphaned
//upstream:pkg/controller/podgc.PodGCController.gcUnscheduledTerminating
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
	why, after := reasonToDelete(pod, node, r.nodeMissingFor(pod, node))
	if why == orphaned {
		// The cache may be stale, so confirm it with a live read.
		err := r.live.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &corev1.Node{})
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
	}
	if why == noReason {
		return reconcile.Result{RequeueAfter: after}, nil
	}
	return reconcile.Result{}, r.forceDelete(ctx, pod, why)
}

// nodeMissingFor returns how long the node of a pod has been known not to exist.
func (r *reconciler) nodeMissingFor(pod *corev1.Pod, node *corev1.Node) time.Duration {
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
//
//upstream:pkg/controller/podgc.PodGCController.gcTerminated
func (r *reconciler) collectTerminated(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods); err != nil {
		return err
	}
	terminated := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !podstate.Finished(&p) })
	slices.SortFunc(terminated, compareForDeletion)
	var errs []error
	for i := range max(len(terminated)-r.threshold, 0) {
		if !awaitsFinalizers(&terminated[i]) {
			errs = append(errs, r.forceDelete(ctx, &terminated[i], overThreshold))
		}
	}
	return errors.Join(errs...)
}

// forceDelete sets the phase of a pod to Failed, unless it has terminated, and deletes it without a
// grace period.
//
//upstream:pkg/controller/podgc.PodGCController.markFailedAndDeletePodWithCondition
func (r *reconciler) forceDelete(ctx context.Context, pod *corev1.Pod, why reason) error {
	log.FromContext(ctx).Info("Force-deleting a pod", "pod", client.ObjectKeyFromObject(pod), "node",
		pod.Spec.NodeName, "reason", why.String())
	if !podstate.Finished(pod) {
		if err := podstate.PatchStatus(ctx, r.client, pod, func(s *corev1.PodStatus) { markFailed(s, pod.Generation, why, time.Now()) }); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	err := r.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	return client.IgnoreNotFound(err)
}
