// Package deployment rolls out Deployments: it creates a ReplicaSet for the current pod template
// and scales it up while it scales the ReplicaSets of earlier templates down.
//
// The next step is a pure function of the Deployment and its ReplicaSets. Each reconcile executes
// one step; the changes that it makes trigger the next one.
package deployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/watches"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// kind is the kind of the owners.
var kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// AddToManager adds the controller.
//
//upstream:pkg/controller/deployment.NewDeploymentController
func AddToManager(mgr manager.Manager) error {
	for _, owned := range []client.Object{&appsv1.ReplicaSet{}, &corev1.Pod{}} {
		if err := claim.Index(context.Background(), mgr.GetFieldIndexer(), owned); err != nil {
			return err
		}
	}
	recorder := events.RecorderFor(mgr, "deployment-controller")
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: recorder}
	return builder.ControllerManagedBy(mgr).
		Named("deployment").
		For(&appsv1.Deployment{}).
		Watches(&appsv1.ReplicaSet{}, handler.EnqueueRequestsFromMapFunc(claim.Requests(kind.GroupKind(), r.adopters))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.awaitingPodDeletion),
			builder.WithPredicates(watches.OnlyDeletes)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

// reconciler reconciles Deployments.
type reconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
}

// adopters returns the Deployments that would adopt a ReplicaSet.
//
//upstream:pkg/controller/deployment.DeploymentController.getDeploymentsForReplicaSet
func (r *reconciler) adopters(ctx context.Context, rs client.Object) []reconcile.Request {
	return claim.Adopters(ctx, r.client, &appsv1.DeploymentList{}, rs, func(d *appsv1.Deployment) *metav1.LabelSelector {
		return d.Spec.Selector
	})
}

// awaitingPodDeletion returns the Deployments with the strategy Recreate that may wait for the
// deletion of a pod.
//
//upstream:pkg/controller/deployment.DeploymentController.deletePod
func (r *reconciler) awaitingPodDeletion(ctx context.Context, pod client.Object) []reconcile.Request {
	return claim.Selecting(ctx, r.client, &appsv1.DeploymentList{}, pod, func(d *appsv1.Deployment) *metav1.LabelSelector {
		if !recreates(d) {
			return nil
		}
		return d.Spec.Selector
	})
}

// Reconcile executes the next step of one Deployment and updates its status.
//
//upstream:pkg/controller/deployment.DeploymentController.syncDeployment
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	d := &appsv1.Deployment{}
	if err := r.client.Get(ctx, req.NamespacedName, d); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	if selector.Empty() {
		r.recorder.Event(d, corev1.EventTypeWarning, "SelectingAll",
			"This deployment is selecting all pods. A non-empty selector is required.")
		if d.Status.ObservedGeneration < d.Generation {
			d.Status.ObservedGeneration = d.Generation
			err = client.IgnoreNotFound(r.client.Status().Update(ctx, d))
		}
		return reconcile.Result{}, err // it would adopt every ReplicaSet
	}
	sets, err := claim.Claim[*appsv1.ReplicaSet](ctx, r.client, r.live, d, kind, selector, &appsv1.ReplicaSetList{})
	if err != nil {
		return reconcile.Result{}, claim.IgnoreOwnerDeleted(err)
	}
	news := pausedOrResumed(d, time.Now())
	if news != nil {
		d.Status.Conditions = news
		if err := r.client.Status().Update(ctx, d); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	oldPods, err := r.oldPodsRunning(ctx, d, sets)
	if err != nil {
		return reconcile.Result{}, err
	}
	next := nextStep(d, sets, oldPods)
	sets, failed := r.apply(ctx, d, next, sets)
	partial := failed != nil && (next.create != nil || !next.rollout)
	if news != nil || partial {
		return reconcile.Result{}, ignoreAwaited(failed) // the event of the status, or a retry, causes the rest
	}
	// A rollout that cannot go on times out too. The retries notice that, since an error has no RequeueAfter. The delays
	// of retries double, so the time until then may be twice the progress deadline.
	result, err := r.syncStatus(ctx, d, sets, next)
	if err = errors.Join(ignoreAwaited(failed), err); err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// ignoreAwaited returns the error of a step, or nil if no retry is needed: the update of the status or the deletion of the
// ReplicaSet that is gone causes the next reconcile, or nothing can be created in the namespace.
func ignoreAwaited(err error) error {
	if errors.Is(err, errCollision) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// oldPodsRunning reports whether a Deployment with the strategy Recreate still has pods of old
// ReplicaSets that have not terminated.
//
//upstream:pkg/controller/deployment.oldPodsRunning
//upstream:pkg/controller/deployment.DeploymentController.getPodMapForDeployment
func (r *reconciler) oldPodsRunning(ctx context.Context, d *appsv1.Deployment, sets []*appsv1.ReplicaSet) (bool, error) {
	if !recreates(d) {
		return false, nil
	}
	_, old := findNewAndOld(d, sets)
	if sum(old, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas }) > 0 {
		return true, nil
	}
	for _, rs := range old {
		pods := &corev1.PodList{}
		if err := r.client.List(ctx, pods, claim.ControlledBy(d.Namespace, rs.UID)); err != nil {
			return false, err
		}
		if slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return !podstate.Finished(&pod) }) {
			return true, nil
		}
	}
	return false, nil
}

// apply executes a step, up to the first write that fails, and returns the ReplicaSets after it.
func (r *reconciler) apply(ctx context.Context, d *appsv1.Deployment, next step,
	sets []*appsv1.ReplicaSet) ([]*appsv1.ReplicaSet, error) {
	for _, rs := range next.update {
		if err := r.client.Update(ctx, rs); err != nil {
			return sets, err
		}
		i := slices.IndexFunc(sets, func(s *appsv1.ReplicaSet) bool { return s.UID == rs.UID })
		r.recordScaling(d, rs, replicas(sets[i]))
		sets[i] = rs
	}
	for _, rs := range next.delete {
		if err := r.client.Delete(ctx, rs, client.Preconditions{UID: &rs.UID,
			ResourceVersion: &rs.ResourceVersion}); client.IgnoreNotFound(err) != nil {
			return sets, err
		}
	}
	if next.create != nil {
		if err := r.createReplicaSet(ctx, d, next.create); err != nil {
			return sets, err
		}
		sets = append(sets, next.create)
	}
	return sets, nil
}

// recordScaling records an event if the number of replicas of a ReplicaSet has changed.
//
//upstream:pkg/controller/deployment.DeploymentController.scaleReplicaSet
func (r *reconciler) recordScaling(d *appsv1.Deployment, rs *appsv1.ReplicaSet, before int32) {
	direction := "up"
	switch {
	case replicas(rs) == before:
		return
	case replicas(rs) < before:
		direction = "down"
	}
	r.recorder.Eventf(d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d",
		direction, rs.Name, before, replicas(rs))
}

// errCollision is the error if the name of a new ReplicaSet is taken.
var errCollision = errors.New("the name of the ReplicaSet is taken")

// createReplicaSet creates the ReplicaSet for the current template. If its name is taken by another
// object, it increments the collision count in the status, so that the next name is different, and
// returns errCollision.
//
//upstream:pkg/controller/deployment.DeploymentController.getNewReplicaSet
func (r *reconciler) createReplicaSet(ctx context.Context, d *appsv1.Deployment, rs *appsv1.ReplicaSet) error {
	err := r.client.Create(ctx, rs)
	switch {
	case err == nil:
		r.recordScaling(d, rs, 0)
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case !apierrors.IsAlreadyExists(err):
		return errors.Join(err, r.reportFailure(ctx, d, fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, err)))
	}
	existing := &appsv1.ReplicaSet{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(rs), existing); err != nil {
		return err
	}
	if metav1.IsControlledBy(existing, d) && sameTemplate(&d.Spec.Template, &existing.Spec.Template) {
		*rs = *existing
		return nil
	}
	n := ptr.Deref(d.Status.CollisionCount, 0) + 1
	d.Status.CollisionCount = &n
	return cmp.Or(r.client.Status().Update(ctx, d), errCollision)
}

// reportFailure records that the new ReplicaSet could not be created, in an event and the condition
// Progressing.
//
//upstream:pkg/controller/deployment.DeploymentController.getNewReplicaSet
func (r *reconciler) reportFailure(ctx context.Context, d *appsv1.Deployment, message string) error {
	const reason = "ReplicaSetCreateError"
	r.recorder.Event(d, corev1.EventTypeWarning, reason, message)
	if !hasDeadline(d) {
		return nil
	}
	c := &conditions{list: slices.Clone(d.Status.Conditions), now: metav1.Now()}
	c.set(appsv1.DeploymentProgressing, corev1.ConditionFalse, reason, message)
	if equality.Semantic.DeepEqual(c.list, d.Status.Conditions) {
		return nil
	}
	d.Status.Conditions = c.list
	return client.IgnoreNotFound(r.client.Status().Update(ctx, d))
}

// syncStatus updates the status after a step, and requeues the Deployment for its progress deadline. If the revision or
// what [announced] returns is new, that is written first; the event of the write causes the rest. Updated with the status,
// the revision does not increment the generation.
//
//upstream:pkg/controller/deployment.DeploymentController.syncRolloutStatus
//upstream:pkg/controller/deployment.DeploymentController.syncStatusOnly
//upstream:pkg/controller/deployment/util.SetDeploymentRevision
func (r *reconciler) syncStatus(ctx context.Context, d *appsv1.Deployment, sets []*appsv1.ReplicaSet,
	last step) (reconcile.Result, error) {
	now := time.Now()
	newRS, _ := findNewAndOld(d, sets)
	news := announced(d, newRS, last, now)
	revisionChanged := newRS != nil && !last.annotated && newRS.Annotations[revisionAnnotation] != d.Annotations[revisionAnnotation]
	if revisionChanged || !equality.Semantic.DeepEqual(news, d.Status.Conditions) {
		if revisionChanged {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, revisionAnnotation, newRS.Annotations[revisionAnnotation])
		}
		d.Status.Conditions = news
		return reconcile.Result{}, client.IgnoreNotFound(r.client.Status().Update(ctx, d))
	}
	if last.alone {
		return reconcile.Result{}, nil
	}
	status := statusOf(d, sets)
	status.Conditions = conditionsOf(d, sets, status, last.rollout, now)
	if !equality.Semantic.DeepEqual(status, d.Status) {
		d.Status = status
		if err := r.client.Status().Update(ctx, d); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	return reconcile.Result{RequeueAfter: untilDeadline(d, now)}, nil
}
