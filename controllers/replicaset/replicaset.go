// Package replicaset creates and deletes the pods of ReplicaSets.
package replicaset

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/claim"
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
func AddToManager(mgr manager.Manager) error {
	if err := claim.Index(context.Background(), mgr.GetFieldIndexer(), &corev1.Pod{}); err != nil {
		return err
	}
	//lint:ignore SA1019 kube-controller-manager records core events here too
	recorder := mgr.GetEventRecorderFor("replicaset-controller")
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: recorder}
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
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
}

// adopters returns the ReplicaSets that would adopt a pod.
func (r *reconciler) adopters(ctx context.Context, pod client.Object) []reconcile.Request {
	return claim.Adopters(ctx, r.client, &appsv1.ReplicaSetList{}, pod, func(rs *appsv1.ReplicaSet) *metav1.LabelSelector {
		return rs.Spec.Selector
	})
}

// Reconcile creates or deletes pods of one ReplicaSet, and updates its status.
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
	if errors.As(err, &claim.OwnerDeleted{}) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
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
func (r *reconciler) manageReplicas(ctx context.Context, rs *appsv1.ReplicaSet,
	owned []*corev1.Pod) ([]*corev1.Pod, *failure) {
	p := replicaDiff(rs, owned)
	if p.create > 0 {
		created, err := r.createPods(ctx, rs, p.create)
		owned = append(owned, created...)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return owned, nil // no pods can be created in the namespace any more
		}
		if err != nil {
			return owned, &failure{"FailedCreate", err}
		}
	}
	if err := inParallel(len(p.delete), func(i int) error {
		pod := p.delete[i]
		err := r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		switch {
		case err == nil:
			r.recorder.Eventf(rs, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %s", pod.Name)
			if pod.DeletionTimestamp == nil {
				now := metav1.Now()
				pod.DeletionTimestamp = &now // for the status; the object is a copy
			}
		case !apierrors.IsNotFound(err):
			r.recorder.Eventf(rs, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		}
		return client.IgnoreNotFound(err)
	}); err != nil {
		return owned, &failure{"FailedDelete", err}
	}
	return owned, nil
}

// createPods creates n pods in batches that double in size, so that an error that concerns all pods
// occurs once and not n times.
func (r *reconciler) createPods(ctx context.Context, rs *appsv1.ReplicaSet, n int) ([]*corev1.Pod, error) {
	var created []*corev1.Pod
	for batch := 1; len(created) < n; batch *= 2 {
		pods := make([]*corev1.Pod, min(batch, n-len(created)))
		err := inParallel(len(pods), func(i int) error {
			pod := newPod(rs)
			if err := r.client.Create(ctx, pod); err != nil {
				if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
					r.recorder.Eventf(rs, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
				}
				return err
			}
			r.recorder.Eventf(rs, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", pod.Name)
			pods[i] = pod
			return nil
		})
		for _, pod := range pods {
			if pod != nil {
				created = append(created, pod)
			}
		}
		if err != nil {
			return created, err
		}
	}
	return created, nil
}

// inParallel calls do with 0 to n-1 concurrently, and returns the first error after all calls have
// returned.
func inParallel(n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}
