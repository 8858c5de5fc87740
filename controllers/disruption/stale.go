package disruption

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// staleTimeout is the time after which the condition DisruptionTarget of a pod that nobody has deleted is stale.
//
//upstream:pkg/controller/disruption.stalePodDisruptionTimeout
const staleTimeout = 2 * time.Minute

// addStale adds the controller that resets stale conditions DisruptionTarget.
//
//upstream:pkg/controller/disruption.DisruptionController.enqueueStalePodDisruptionCleanup
func addStale(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("disruption-stale-pod").
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			_, ok := untilStale(o.(*corev1.Pod), time.Now())
			return ok
		}))).
		Complete(&staleReconciler{mgr.GetClient()})
}

// staleReconciler reconciles pods with the condition DisruptionTarget.
type staleReconciler struct{ client client.Client }

// Reconcile sets the condition of one pod to False when the condition is stale.
//
//upstream:pkg/controller/disruption.DisruptionController.syncStalePodDisruption
func (r *staleReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := time.Now()
	left, ok := untilStale(pod, now)
	if !ok || left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	podstate.SetCondition(&pod.Status, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse,
		LastTransitionTime: metav1.NewTime(now), ObservedGeneration: pod.Generation})
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Status().Update(ctx, pod))
}

// untilStale returns the time until the condition DisruptionTarget of a pod is stale. ok is false for a pod
// without the condition, one that is being deleted or has terminated, and one that kubelet terminates: kubelet
// may take any time.
//
//upstream:pkg/controller/disruption.DisruptionController.nonTerminatingPodHasStaleDisruptionCondition
func untilStale(pod *corev1.Pod, now time.Time) (left time.Duration, ok bool) {
	c := podstate.Condition(pod, corev1.DisruptionTarget)
	if !podstate.Active(pod) || c == nil || c.Status != corev1.ConditionTrue || c.Reason == corev1.PodReasonTerminationByKubelet {
		return 0, false
	}
	return max(0, c.LastTransitionTime.Add(staleTimeout).Sub(now)), true
}
