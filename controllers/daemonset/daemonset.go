// Package daemonset runs a pod of each DaemonSet on each suitable node, and records the revisions of the templates.
//
// The pods to be created and deleted are a pure function of the DaemonSet, the nodes and its pods ([observed.managePlan]).
// If nothing is to be done, a rolling update takes its next step ([observed.rolloutPlan]). The changes trigger the next
// reconcile. A pod requires its node by an affinity to the node's name, and the scheduler binds it.
//
// Failed pods are deleted at once, then after 1 s, 2 s and so on up to 15 minutes on the same node. The back-off begins
// anew with the controller and with each generation of the DaemonSet.
//
// An event of a node enqueues the DaemonSets for which the node becomes suitable or unsuitable.
package daemonset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/podcontrol"
	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// kind is the kind of the owners.
var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// burst is the maximum number of pods that one reconcile creates, and that it deletes.
//
//upstream:pkg/controller/daemon.BurstReplicas
const burst = 250

// The first and the longest delay before the failed pods on a node are deleted.
//
//upstream:cmd/kube-controller-manager/app.newDaemonSetController
const (
	firstBackoff = time.Second
	maxBackoff   = 15 * time.Minute
)

// AddToManager adds the controller.
//
//upstream:pkg/controller/daemon.NewDaemonSetsController
func AddToManager(mgr manager.Manager) error {
	for _, owned := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
		if err := claim.Index(context.Background(), mgr.GetFieldIndexer(), owned); err != nil {
			return err
		}
	}
	recorder := events.RecorderFor(mgr, "daemonset-controller")
	r := &reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: recorder,
		pods:    podcontrol.Control{Client: mgr.GetClient(), Recorder: recorder},
		backoff: flowcontrol.NewBackOff(firstBackoff, maxBackoff),
	}
	return builder.ControllerManagedBy(mgr).
		Named("daemonset").
		For(&appsv1.DaemonSet{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(claim.Requests(kind.GroupKind(), r.adopters)),
			builder.WithPredicates(claim.Claimable)).
		Watches(&appsv1.ControllerRevision{}, handler.EnqueueRequestsFromMapFunc(claim.Requests(kind.GroupKind(), r.adopters)),
			builder.WithPredicates(predicate.Funcs{CreateFunc: isOrphan})).
		Watches(&corev1.Node{}, r.nodeEvents()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(r)
}

// isOrphan reports whether a revision has no controller when it is created. The revision of a DaemonSet does not trigger
// it.
//
//upstream:pkg/controller/daemon.DaemonSetsController.addHistory
func isOrphan(e event.CreateEvent) bool { return metav1.GetControllerOfNoCopy(e.Object) == nil }

// reconciler reconciles DaemonSets.
type reconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
	pods     podcontrol.Control
	backoff  *flowcontrol.Backoff // by DaemonSet, its generation, and the node
}

// adopters returns the DaemonSets that would adopt a pod or a revision.
//
//upstream:pkg/controller/daemon.DaemonSetsController.getDaemonSetsForPod
//upstream:pkg/controller/daemon.DaemonSetsController.getDaemonSetsForHistory
func (r *reconciler) adopters(ctx context.Context, o client.Object) []reconcile.Request {
	return claim.Adopters(ctx, r.client, &appsv1.DaemonSetList{}, o, func(set *appsv1.DaemonSet) *metav1.LabelSelector {
		return set.Spec.Selector
	})
}

// Reconcile creates or deletes pods of one DaemonSet, and updates its status and history.
//
//upstream:pkg/controller/daemon.DaemonSetsController.syncDaemonSet
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	set := &appsv1.DaemonSet{}
	if err := r.client.Get(ctx, req.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	switch {
	case err != nil:
		return reconcile.Result{}, reconcile.TerminalError(err)
	case set.Spec.Selector != nil && selector.Empty():
		r.recorder.Event(set, corev1.EventTypeWarning, "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return reconcile.Result{}, nil
	case set.DeletionTimestamp != nil: // its revisions may be gone already
		return reconcile.Result{}, nil
	}
	after, err := r.sync(ctx, set, selector)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		err = nil // nothing can be created in the namespace any more
	}
	return requeue.After(after, claim.IgnoreOwnerDeleted(err))
}

// sync takes the next step for a DaemonSet with a selector, and returns the time until the step after it.
//
//upstream:pkg/controller/daemon.DaemonSetsController.updateDaemonSet
func (r *reconciler) sync(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector) (time.Duration, error) {
	h, err := r.history(ctx, set, selector)
	if h == nil || err != nil {
		return 0, err
	}
	pods, err := r.claimPods(ctx, set, selector)
	if err != nil {
		return 0, err
	}
	nodes, err := r.nodes(ctx)
	if err != nil {
		return 0, err
	}
	o := newObserved(set, h.current.Labels[hashLabel], nodes, pods, time.Now())
	o.backoff = func(node string) time.Duration { return r.failedPodBackoff(set, node, o.now) }
	p := o.managePlan()
	if p.empty() {
		after := p.after
		if set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			p, err = o.rolloutPlan()
		}
		p.after = after
	}
	if err == nil {
		err = r.execute(ctx, o, &p)
	}
	if err == nil {
		err = r.deleteRevisions(ctx, h.beyondLimit(set, pods))
	}
	status, after := o.status()
	if after > 0 {
		p.waitFor(after)
	}
	return p.after, errors.Join(err, r.updateStatus(ctx, set, status))
}

// claimPods adopts and releases pods, and returns the pods that the DaemonSet then owns.
//
//upstream:pkg/controller/daemon.DaemonSetsController.getDaemonPods
func (r *reconciler) claimPods(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector) ([]*corev1.Pod, error) {
	return claim.Claim[*corev1.Pod](ctx, r.client, r.live, set, kind, selector, &corev1.PodList{})
}

// nodes returns all nodes.
func (r *reconciler) nodes(ctx context.Context) ([]*corev1.Node, error) {
	list := &corev1.NodeList{}
	if err := r.client.List(ctx, list); err != nil {
		return nil, err
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	return nodes, nil
}

// failedPodBackoff returns for how long a failed pod stays on a node. If it is zero, the delay for the next one doubles.
//
//upstream:pkg/controller/daemon.failedPodsBackoffKey
func (r *reconciler) failedPodBackoff(set *appsv1.DaemonSet, node string, now time.Time) time.Duration {
	key := fmt.Sprintf("%s/%d/%s", set.UID, set.Status.ObservedGeneration, node)
	if r.backoff.IsInBackOffSinceUpdate(key, now) {
		return r.backoff.Get(key)
	}
	r.backoff.GC()
	r.backoff.Next(key, now)
	return 0
}

// execute executes a plan, and adds the created pods to the state.
//
//upstream:pkg/controller/daemon.DaemonSetsController.syncNodes
func (r *reconciler) execute(ctx context.Context, o *observed, p *plan) error {
	for _, e := range p.events {
		r.recorder.Event(o.set, e.kind, e.reason, e.message)
	}
	nodes := p.create[:min(len(p.create), burst)]
	created, err := r.pods.Create(ctx, o.set, len(nodes), func(i int) *corev1.Pod { return o.newPod(nodes[i]) })
	for _, pod := range created {
		o.pods[nodeOf(pod)] = append(o.pods[nodeOf(pod)], pod)
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		err = nil
	}
	pods := p.delete[:min(len(p.delete), burst)]
	return errors.Join(err, podcontrol.InParallel(len(pods), func(i int) error { return r.pods.Delete(ctx, o.set, pods[i]) }))
}

// updateStatus writes the status if it has changed.
//
//upstream:pkg/controller/daemon.storeDaemonSetStatus
func (r *reconciler) updateStatus(ctx context.Context, set *appsv1.DaemonSet, status appsv1.DaemonSetStatus) error {
	was := set.Status
	if was.ObservedGeneration > set.Generation {
		was.ObservedGeneration = set.Generation
	}
	if equality.Semantic.DeepEqual(status, was) {
		return nil
	}
	set.Status = status
	return client.IgnoreNotFound(r.client.Status().Update(ctx, set))
}
