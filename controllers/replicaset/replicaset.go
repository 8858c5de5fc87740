// Package replicaset keeps as many pods of each ReplicaSet as it wants.
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

var kind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// AddToManager adds the controller.
func AddToManager(mgr manager.Manager) error {
	if err := claim.Index(context.Background(), mgr.GetFieldIndexer(), &corev1.Pod{}); err != nil {
		return err
	}
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: mgr.GetEventRecorderFor("replicaset-controller")}
	return builder.ControllerManagedBy(mgr).
		Named("replicaset").
		For(&appsv1.ReplicaSet{}).
		Owns(&corev1.Pod{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.wouldAdopt)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

type reconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
}

// wouldAdopt names the sets whose selector matches a pod that nobody controls.
func (r *reconciler) wouldAdopt(ctx context.Context, pod client.Object) []reconcile.Request {
	return claim.Adopters(ctx, r.client, &appsv1.ReplicaSetList{}, pod, func(rs *appsv1.ReplicaSet) *metav1.LabelSelector {
		return rs.Spec.Selector
	})
}

// Reconcile makes one set's pods as many as it wants and says in its status how they are.
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
	if errors.As(err, &claim.Going{}) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	owned, trouble := r.carryOut(ctx, rs, owned)
	status, after := statusOf(rs, owned, trouble, time.Now())
	if !equality.Semantic.DeepEqual(status, rs.Status) {
		rs.Status = status
		err = client.IgnoreNotFound(r.client.Status().Update(ctx, rs))
	}
	if trouble != nil {
		err = errors.Join(err, trouble.err)
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// carryOut creates or deletes pods and returns those that the set then has.
func (r *reconciler) carryOut(ctx context.Context, rs *appsv1.ReplicaSet, owned []*corev1.Pod) ([]*corev1.Pod, *trouble) {
	p := planFor(rs, owned)
	if p.create > 0 {
		created, err := r.create(ctx, rs, p.create)
		owned = append(owned, created...)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return owned, nil // there will be no more pods here
		}
		if err != nil {
			return owned, &trouble{"FailedCreate", err}
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
				pod.DeletionTimestamp = &now // for the status; it is our copy
			}
		case !apierrors.IsNotFound(err):
			r.recorder.Eventf(rs, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		}
		return client.IgnoreNotFound(err)
	}); err != nil {
		return owned, &trouble{"FailedDelete", err}
	}
	return owned, nil
}

// create creates n pods in batches that double in size, so that what is bound to fail fails once and
// not n times.
func (r *reconciler) create(ctx context.Context, rs *appsv1.ReplicaSet, n int) ([]*corev1.Pod, error) {
	var created []*corev1.Pod
	for batch := 1; len(created) < n; batch *= 2 {
		pods := make([]*corev1.Pod, min(batch, n-len(created)))
		err := inParallel(len(pods), func(i int) error {
			pod := podFor(rs)
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

// inParallel calls do with 0 to n-1 and returns the first error after all have ended.
func inParallel(n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}
