// Package replicaset creates and deletes the pods of ReplicaSets.
package replicaset

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/podcontrol"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// kind is the kind of the owners.
var kind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// AddToManager adds the controller.
//
//upstream:pkg/controller/replicaset.NewReplicaSetController
func AddToManager(mgr manager.Manager) error {
	if err := claim.Index(context.Background(), mgr.GetFieldIndexer(), &corev1.Pod{}); err != nil {
		return err
	}
	recorder := events.RecorderFor(mgr, "replicaset-controller")
	r := &reconciler{
		client: mgr.GetClient(),
		live:   mgr.GetAPIReader(),
		pods:   podcontrol.Control{Client: mgr.GetClient(), Recorder: recorder},
	}
	return builder.ControllerManagedBy(mgr).
		Named("replicaset").
		For(&appsv1.ReplicaSet{}).
		Owns(&corev1.Pod{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.adopters)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

// reconciler reconciles ReplicaSets.
type reconciler struct {
	client client.Client
	live   client.Reader
	pods   podcontrol.Control
}

// adopters returns the ReplicaSets that would adopt a pod.
//
//upstream:pkg/controller/replicaset.ReplicaSetController.getPodReplicaSets
func (r *reconciler) adopters(ctx context.Context, pod client.Object) []reconcile.Request {
	return claim.Adopters(ctx, r.client, &appsv1.ReplicaSetList{}, pod, func(rs *appsv1.ReplicaSet) *metav1.LabelSelector {
		return rs.Spec.Selector
	})
}

// Reconcile creates or deletes pods of one ReplicaSet, and updates its status.
//
//upstream:pkg/controller/replicaset.ReplicaSetController.syncReplicaSet
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rs := &appsv1.ReplicaSet{}
	if err := r.client.Get(ctx, req.NamespacedName, rs); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	owned, err := claim.Claim[*corev1.Pod](ctx, r.client, r.live, rs, kind, selector, &corev1.PodList{})
	if err != nil {
		return reconcile.Result{}, claim.IgnoreOwnerDeleted(err)
	}
	owned, failed := r.manageReplicas(ctx, rs, owned)
	status, after := statusOf(rs, owned, failed, time.Now())
	if !equality.Semantic.DeepEqual(status, rs.Status) {
		rs.Status = status
		err = client.IgnoreNotFound(r.client.Status().Update(ctx, rs))
	}
	if failed != nil {
		err = errors.Join(err, failed.err)
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// manageReplicas creates or deletes pods and returns those that the ReplicaSet then owns.
//
//upstream:pkg/controller/replicaset.ReplicaSetController.manageReplicas
func (r *reconciler) manageReplicas(ctx context.Context, rs *appsv1.ReplicaSet,
	owned []*corev1.Pod) ([]*corev1.Pod, *failure) {
	p := replicaDiff(rs, owned)
	if p.create > 0 {
		created, err := r.pods.Create(ctx, rs, p.create, func(int) *corev1.Pod {
			return podcontrol.FromTemplate(&rs.Spec.Template, rs, kind)
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
		return r.pods.Delete(ctx, rs, p.delete[i])
	}); err != nil {
		return owned, &failure{"FailedDelete", err}
	}
	return owned, nil
}
