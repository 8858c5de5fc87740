package job

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"flyball.dev/controllers/internal/jobstate"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// addOrphans adds the controller that removes the finalizer of pods that no Job will count. If the controller of a
// pod does not exist, the pod is reconciled when the garbage collector deletes or orphans it.
//
//upstream:pkg/controller/job.Controller.enqueueOrphanPod
func addOrphans(mgr manager.Manager) error {
	r := &orphanReconciler{client: mgr.GetClient(), live: mgr.GetAPIReader()}
	suspect := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return tracked(o.(*corev1.Pod)) && (metav1.GetControllerOfNoCopy(o) == nil || o.GetDeletionTimestamp() != nil)
	})
	return builder.ControllerManagedBy(mgr).
		Named("job-orphan-pod").
		For(&corev1.Pod{}, builder.WithPredicates(suspect)).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(r.trackedPods), builder.WithPredicates(ends)).
		Complete(r)
}

// ends is a predicate for the events after which a Job counts no more pods.
var ends = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(e event.UpdateEvent) bool { return jobstate.Finished(e.ObjectNew.(*batchv1.Job)) != nil },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// orphanReconciler reconciles pods with the finalizer.
type orphanReconciler struct {
	client client.Client
	live   client.Reader
}

// trackedPods returns the pods of a Job that have the finalizer.
//
//upstream:pkg/controller/job.Controller.syncOrphanPodsBySelector
func (r *orphanReconciler) trackedPods(ctx context.Context, job client.Object) []reconcile.Request {
	selector, err := metav1.LabelSelectorAsSelector(job.(*batchv1.Job).Spec.Selector)
	if err != nil {
		return nil
	}
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods, client.InNamespace(job.GetNamespace()),
		client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	for i := range pods.Items {
		if tracked(&pods.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
		}
	}
	return requests
}

// Reconcile removes the finalizer of one pod if no Job will do it.
//
//upstream:pkg/controller/job.Controller.syncOrphanPod
func (r *orphanReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil || !tracked(pod) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// The cache of Jobs may be behind the cache of pods, so a live read confirms it.
	for _, reader := range []client.Reader{r.client, r.live} {
		if orphan, err := isOrphan(ctx, reader, pod); err != nil || !orphan {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, removeFinalizer(ctx, r.client, pod, true)
}

// isOrphan reports whether no Job will count a pod. The pod has no controller, or its Job does not exist, has
// finished, or does not select the pod, which is being deleted.
//
//upstream:pkg/controller/job.Controller.handleSingleOrphanPod
func isOrphan(ctx context.Context, reader client.Reader, pod *corev1.Pod) (bool, error) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true, nil
	}
	if ref.APIVersion != kind.GroupVersion().String() || ref.Kind != kind.Kind {
		return false, nil
	}
	job := &batchv1.Job{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: ref.Name}, job)
	if apierrors.IsNotFound(err) || err == nil && job.UID != ref.UID {
		return true, nil
	}
	if err != nil || !managed(job) {
		return false, err
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return false, nil
	}
	return jobstate.Finished(job) != nil ||
		pod.DeletionTimestamp != nil && !selector.Matches(labels.Set(pod.Labels)), nil
}
