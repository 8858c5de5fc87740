// Package replicaset creates and deletes the pods of ReplicaSets and of ReplicationControllers. One plan serves both:
// ReplicationControllers are converted (owner.go).
package replicaset

import (
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/podcontrol"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// addToManager adds the controller of a kind of owners.
//
//upstream:pkg/controller/replicaset.NewBaseController
func addToManager(mgr manager.Manager, kind *ownerKind) error {
	for _, owned := range []client.Object{&corev1.Pod{}, kind.newObject()} {
		if err := claim.Index(context.Background(), mgr.GetFieldIndexer(), owned); err != nil {
			return err
		}
	}
	recorder := events.RecorderFor(mgr, kind.component)
	r := &reconciler{
		kind:   kind,
		client: mgr.GetClient(),
		live:   mgr.GetAPIReader(),
		pods:   podcontrol.Control{Client: mgr.GetClient(), Recorder: recorder},
	}
	return builder.ControllerManagedBy(mgr).
		Named(kind.controller).
		For(kind.newObject()).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(claim.Requests(kind.GroupKind(), r.adopters)),
			builder.WithPredicates(claim.Claimable)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

// reconciler reconciles the owners of a kind.
type reconciler struct {
	kind   *ownerKind
	client client.Client
	live   client.Reader
	pods   podcontrol.Control
}

// adopters returns the owners that would adopt a pod.
//
//upstream:pkg/controller/replicaset.ReplicaSetController.getPodReplicaSets
func (r *reconciler) adopters(ctx context.Context, pod client.Object) []reconcile.Request {
	return claim.Adopters(ctx, r.client, r.kind.newList(), pod, func(owner client.Object) *metav1.LabelSelector {
		return r.kind.replicaSet(owner).Spec.Selector
	})
}

// Reconcile creates or deletes pods of one owner, and updates its status.
//
//upstream:pkg/controller/replicaset.ReplicaSetController.syncReplicaSet
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	start, owner := time.Now(), r.kind.newObject()
	if err := r.client.Get(ctx, req.NamespacedName, owner); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	rs := r.kind.replicaSet(owner)
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	owned, err := r.claimPods(ctx, owner, selector)
	if err != nil {
		return reconcile.Result{}, claim.IgnoreOwnerDeleted(err)
	}
	defer func() { podcontrol.Pause(ctx, start, len(owned)) }()
	owned, failed := r.manageReplicas(ctx, owner, rs, owned)
	status, after := statusOf(rs, owned, failed, time.Now())
	if r.kind.legacy {
		status.TerminatingReplicas = nil
	}
	if !equality.Semantic.DeepEqual(status, rs.Status) {
		r.kind.setStatus(owner, status)
		err = client.IgnoreNotFound(r.client.Status().Update(ctx, owner))
	}
	if failed != nil {
		err = errors.Join(err, failed.err)
	}
	return requeue.After(after, err)
}

// claimPods adopts and releases active pods, and returns the pods that the owner then owns. Other pods stay with
// their owner.
//
//upstream:pkg/controller/replicaset.ReplicaSetController.claimPods
//upstream:pkg/controller.FilterClaimedPods
func (r *reconciler) claimPods(ctx context.Context, owner client.Object, selector labels.Selector) ([]*corev1.Pod, error) {
	pods, err := claim.Candidates[*corev1.Pod](ctx, r.client, &corev1.PodList{}, owner, selector)
	if err != nil {
		return nil, err
	}
	owned, err := claim.Among(ctx, r.client, r.live, owner, r.kind.GroupVersionKind, selector, podstate.FilterActive(pods))
	inactive := slices.DeleteFunc(pods, podstate.Active)
	return append(owned, claim.Classify(owner, selector, inactive).Owned...), err
}

// manageReplicas creates or deletes pods and returns the pods that the owner then owns.
//
//upstream:pkg/controller/replicaset.ReplicaSetController.manageReplicas
func (r *reconciler) manageReplicas(ctx context.Context, owner client.Object, rs *appsv1.ReplicaSet,
	owned []*corev1.Pod) ([]*corev1.Pod, *failure) {
	related, err := r.relatedPods(ctx, rs, owned)
	if err != nil {
		return owned, &failure{"FailedDelete", err}
	}
	p := replicaDiff(rs, owned, related, time.Now())
	if p.create > 0 {
		created, err := r.pods.Create(ctx, owner, p.create, func(int) *corev1.Pod {
			return podcontrol.FromTemplate(&rs.Spec.Template, rs, r.kind.GroupVersionKind)
		})
		owned = append(owned, created...)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return owned, nil // no pods can be created in the namespace any more
		}
		if err != nil {
			return owned, &failure{"FailedCreate", err}
		}
	}
	if err := podcontrol.InParallel(len(p.delete), func(i int) error {
		return r.pods.Delete(ctx, owner, p.delete[i])
	}); err != nil {
		return owned, &failure{"FailedDelete", err}
	}
	return owned, nil
}

// relatedPods returns the pods that are selected by the siblings of a ReplicaSet, the ReplicaSets with the same owner, if
// some of the pods that it owns have to be deleted.
//
//upstream:pkg/controller/replicaset.ReplicaSetController.getIndirectlyRelatedPods
func (r *reconciler) relatedPods(ctx context.Context, rs *appsv1.ReplicaSet, owned []*corev1.Pod) ([]*corev1.Pod, error) {
	ref := metav1.GetControllerOfNoCopy(rs)
	if r.kind.legacy || ref == nil || len(podstate.FilterActive(owned)) <= int(desired(rs)) {
		return nil, nil
	}
	siblings := &appsv1.ReplicaSetList{}
	if err := r.client.List(ctx, siblings, claim.ControlledBy(rs.Namespace, ref.UID)); err != nil {
		return nil, err
	}
	var related []*corev1.Pod
	seen := map[types.UID]bool{}
	for i := range siblings.Items {
		selector, err := metav1.LabelSelectorAsSelector(siblings.Items[i].Spec.Selector)
		if err != nil {
			continue // it selects nothing
		}
		pods := &corev1.PodList{}
		if err := r.client.List(ctx, pods, client.InNamespace(rs.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return nil, err
		}
		for j := range pods.Items {
			if p := &pods.Items[j]; !seen[p.UID] {
				seen[p.UID] = true
				related = append(related, p)
			}
		}
	}
	return related, nil
}
