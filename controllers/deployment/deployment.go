// Package deployment rolls out Deployments: it keeps a ReplicaSet for the present pod template and
// moves replicas to it from the sets of earlier templates.
//
// What to do next is a pure function of the deployment and its sets. Each pass takes one step; the
// change that it makes brings the next pass.
package deployment

import (
	"cmp"
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
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

var kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// AddToManager adds the controller.
func AddToManager(mgr manager.Manager) error {
	if err := claim.Index(context.Background(), mgr.GetFieldIndexer(), &appsv1.ReplicaSet{}); err != nil {
		return err
	}
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: mgr.GetEventRecorderFor("deployment-controller")}
	return builder.ControllerManagedBy(mgr).
		Named("deployment").
		For(&appsv1.Deployment{}).
		Owns(&appsv1.ReplicaSet{}).
		Watches(&appsv1.ReplicaSet{}, handler.EnqueueRequestsFromMapFunc(r.wouldAdopt)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.recreated), builder.WithPredicates(onlyDeletes)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

var onlyDeletes = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

type reconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
}

// wouldAdopt names the deployments whose selector matches a set that nobody controls.
func (r *reconciler) wouldAdopt(ctx context.Context, rs client.Object) []reconcile.Request {
	return claim.Adopters(ctx, r.client, &appsv1.DeploymentList{}, rs, func(d *appsv1.Deployment) *metav1.LabelSelector {
		return d.Spec.Selector
	})
}

// recreated names the deployments that may wait for a pod to be gone before they start new ones.
func (r *reconciler) recreated(ctx context.Context, pod client.Object) []reconcile.Request {
	return claim.Selecting(ctx, r.client, &appsv1.DeploymentList{}, pod, func(d *appsv1.Deployment) *metav1.LabelSelector {
		if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			return nil
		}
		return d.Spec.Selector
	})
}

// Reconcile takes the next step of one deployment and says in its status how far it is.
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
		r.recorder.Event(d, corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
		return reconcile.Result{}, nil // it would claim every set there is
	}
	sets, err := claim.Claim[*appsv1.ReplicaSet](ctx, r.client, r.live, d, kind, selector, &appsv1.ReplicaSetList{})
	if errors.As(err, &claim.Going{}) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	oldPods, err := r.oldPods(ctx, d, selector, sets)
	if err != nil {
		return reconcile.Result{}, err
	}
	p, err := planFor(d, sets, oldPods)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	if sets, err = r.carryOut(ctx, d, p, sets); err != nil {
		if errors.Is(err, errCollision) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			err = nil // the status brings the next try; or there will be no more sets here
		}
		return reconcile.Result{}, err
	}
	return r.report(ctx, d, sets, p.create != nil)
}

// oldPods reports whether a deployment that is recreated still has pods of old sets, if only on
// their way out.
func (r *reconciler) oldPods(ctx context.Context, d *appsv1.Deployment, selector labels.Selector, sets []*appsv1.ReplicaSet) (bool, error) {
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return false, nil
	}
	_, old := split(d, sets)
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods, client.InNamespace(d.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return false, err
	}
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return !podstate.Finished(&pod) && slices.ContainsFunc(old, func(rs *appsv1.ReplicaSet) bool { return metav1.IsControlledBy(&pod, rs) })
	}), nil
}

// carryOut does what the plan says and returns the sets as they then are.
func (r *reconciler) carryOut(ctx context.Context, d *appsv1.Deployment, p plan, sets []*appsv1.ReplicaSet) ([]*appsv1.ReplicaSet, error) {
	for _, rs := range p.update {
		if err := r.client.Update(ctx, rs); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(sets, func(s *appsv1.ReplicaSet) bool { return s.UID == rs.UID })
		r.scaled(d, rs, replicas(sets[i]))
		sets[i] = rs
	}
	for _, rs := range p.delete {
		if err := r.client.Delete(ctx, rs, client.Preconditions{UID: &rs.UID, ResourceVersion: &rs.ResourceVersion}); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	if p.create != nil {
		if err := r.create(ctx, d, p.create); err != nil {
			return nil, err
		}
		sets = append(sets, p.create)
	}
	return sets, nil
}

// scaled records that a set has another number of replicas than before.
func (r *reconciler) scaled(d *appsv1.Deployment, rs *appsv1.ReplicaSet, before int32) {
	way := "up"
	switch {
	case replicas(rs) == before:
		return
	case replicas(rs) < before:
		way = "down"
	}
	r.recorder.Eventf(d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", way, rs.Name, before, replicas(rs))
}

// errCollision says that the name of a new set is taken.
var errCollision = errors.New("the name of the ReplicaSet is taken")

// create makes the set for the present template. If its name is taken by anything but itself, the
// collision is counted in the status, which gives the next try another name, and errCollision returned.
func (r *reconciler) create(ctx context.Context, d *appsv1.Deployment, rs *appsv1.ReplicaSet) error {
	err := r.client.Create(ctx, rs)
	switch {
	case err == nil:
		r.scaled(d, rs, 0)
		return nil
	case !apierrors.IsAlreadyExists(err):
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			r.recorder.Eventf(d, corev1.EventTypeWarning, "ReplicaSetCreateError", "Failed to create new replica set %q: %v", rs.Name, err)
		}
		return err
	}
	there := &appsv1.ReplicaSet{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(rs), there); err != nil {
		return err
	}
	if metav1.IsControlledBy(there, d) && sameTemplate(&d.Spec.Template, &there.Spec.Template) {
		*rs = *there
		return nil
	}
	n := int32(1)
	if d.Status.CollisionCount != nil {
		n += *d.Status.CollisionCount
	}
	d.Status.CollisionCount = &n
	return cmp.Or(r.client.Status().Update(ctx, d), errCollision)
}

// report writes the status, with the number of the revision, if there is anything new, and comes back
// when the deadline of a rollout is over. Written with the status, the revision is no new generation.
func (r *reconciler) report(ctx context.Context, d *appsv1.Deployment, sets []*appsv1.ReplicaSet, created bool) (reconcile.Result, error) {
	now := time.Now()
	status := statusOf(d, sets)
	status.Conditions = conditionsOf(d, sets, status, created, now)
	current, _ := split(d, sets)
	revised := current != nil && revisionOf(current) != revisionOf(d)
	if revised {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, revisionAnnotation, current.Annotations[revisionAnnotation])
	}
	if revised || !equality.Semantic.DeepEqual(status, d.Status) {
		d.Status = status
		if err := r.client.Status().Update(ctx, d); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	return reconcile.Result{RequeueAfter: untilDeadline(d, now)}, nil
}
