// Package disruption updates the status of PodDisruptionBudgets, which has the number of pods that may be evicted, and
// resets stale conditions DisruptionTarget of pods.
package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// deletionTimeout is the time that an evicted pod counts as disrupted before it is deleted.
//
//upstream:pkg/controller/disruption.DeletionTimeout
const deletionTimeout = 2 * time.Minute

// AddToManager adds the controller.
//
//upstream:pkg/controller/disruption.NewDisruptionController
func AddToManager(mgr manager.Manager) error {
	recorder := events.RecorderFor(mgr, "controllermanager")
	r := &reconciler{client: mgr.GetClient(), mapper: meta.ToRESTMapperWithContext(mgr.GetRESTMapper()), recorder: recorder}
	budgets := claim.NewSelectors(selectorOf)
	err := builder.ControllerManagedBy(mgr).
		Named("disruption").
		Watches(&policyv1.PodDisruptionBudget{}, budgets).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(budgets.Of)).
		Complete(r)
	if err != nil {
		return err
	}
	return addStale(mgr)
}

// reconciler reconciles PodDisruptionBudgets.
type reconciler struct {
	client   client.Client
	mapper   meta.RESTMapperWithContext
	recorder record.EventRecorder
}

// selectorOf returns the selector of a budget, or nil if it selects nothing.
func selectorOf(o client.Object) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(o.(*policyv1.PodDisruptionBudget).Spec.Selector)
	if err != nil {
		return nil
	}
	return selector
}

// Reconcile updates the status of one budget. If the status cannot be computed, no disruption is
// allowed.
//
//upstream:pkg/controller/disruption.DisruptionController.sync
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	b := &policyv1.PodDisruptionBudget{}
	if err := r.client.Get(ctx, req.NamespacedName, b); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := b.Status.DeepCopy()
	after, failed := r.setStatus(ctx, b, time.Now())
	if failed != nil {
		fail(&b.Status, failed)
	}
	if errors.Is(failed, errNoController) {
		failed = nil // an event of the controller or of a pod causes the next reconcile
	}
	if equality.Semantic.DeepEqual(*before, b.Status) {
		return requeue.After(after, failed)
	}
	return requeue.After(after, errors.Join(failed, client.IgnoreNotFound(r.client.Status().Update(ctx, b))))
}

// fail sets the status of a budget that cannot be computed. It keeps the message of the first failure, since the
// message of each further failure may differ.
//
//upstream:pkg/controller/disruption.DisruptionController.failSafe
func fail(s *policyv1.PodDisruptionBudgetStatus, err error) {
	s.DisruptionsAllowed = 0
	was := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	if was != nil && was.Reason == policyv1.SyncFailedReason {
		return
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
		Message: err.Error(), ObservedGeneration: s.ObservedGeneration,
	})
}

// setStatus computes the status of a budget. It returns the time until a pod no longer counts as disrupted, or zero.
//
//upstream:pkg/controller/disruption.DisruptionController.trySync
//upstream:pkg/controller/disruption.DisruptionController.updatePdbStatus
//upstream:pkg/controller/disruption.countHealthyPods
func (r *reconciler) setStatus(ctx context.Context, b *policyv1.PodDisruptionBudget, now time.Time) (time.Duration, error) {
	pods, err := r.pods(ctx, b)
	if err != nil {
		r.recorder.Eventf(b, corev1.EventTypeWarning, "NoPods", "Failed to get pods: %v", err)
		return 0, err
	}
	if len(pods) == 0 {
		r.recorder.Event(b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	expected, desired, err := r.expectedPods(ctx, b, pods)
	if err != nil {
		r.recorder.Eventf(b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: %v", err)
		return 0, err
	}
	disrupted, after := r.disruptedPods(b, pods, now)
	var healthy int32
	for _, p := range pods {
		at, going := disrupted[p.Name]
		going = going && at.Add(deletionTimeout).After(now)
		if !going && p.DeletionTimestamp == nil && podstate.Ready(p) {
			healthy++
		}
	}
	allowed := max(healthy-desired, 0)
	if expected <= 0 {
		allowed = 0
	}
	s := &b.Status
	s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, s.DisruptionsAllowed = healthy, desired, expected, allowed
	s.DisruptedPods, s.ObservedGeneration = disrupted, b.Generation
	condition := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, ObservedGeneration: b.Generation}
	condition.Status, condition.Reason = metav1.ConditionFalse, policyv1.InsufficientPodsReason
	if allowed > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	meta.SetStatusCondition(&s.Conditions, condition)
	return after, nil
}

// pods returns the pods that a budget selects. A budget without a selector selects none.
//
//upstream:pkg/controller/disruption.DisruptionController.getPodsForPdb
func (r *reconciler) pods(ctx context.Context, b *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil, err
	}
	list := &corev1.PodList{}
	if err := r.client.List(ctx, list, client.InNamespace(b.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// disruptedPods returns the pods that were evicted and are not deleted yet, and the time until the first of them counts
// as healthy again.
//
//upstream:pkg/controller/disruption.DisruptionController.buildDisruptedPodMap
func (r *reconciler) disruptedPods(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, now time.Time) (disrupted map[string]metav1.Time, after time.Duration) {
	for _, p := range pods {
		at, ok := b.Status.DisruptedPods[p.Name]
		left := at.Add(deletionTimeout).Sub(now)
		if !ok || p.DeletionTimestamp != nil {
			continue
		}
		if left < 0 {
			r.recorder.Eventf(p, corev1.EventTypeWarning, "NotDeleted", "Pod was expected by PDB %s/%s to be deleted but it wasn't", b.Namespace, b.Name)
			continue
		}
		if disrupted == nil {
			disrupted = map[string]metav1.Time{}
		}
		disrupted[p.Name] = at
		if left = max(left, time.Millisecond); after == 0 || left < after {
			after = left
		}
	}
	return disrupted, after
}

// expectedPods returns how many pods there should be, and how many of them must be healthy.
//
//upstream:pkg/controller/disruption.DisruptionController.getExpectedPodCount
func (r *reconciler) expectedPods(ctx context.Context, b *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (expected, desired int32, err error) {
	least, most := b.Spec.MinAvailable, b.Spec.MaxUnavailable
	switch {
	case most != nil:
		if expected, err = r.scaleOf(ctx, b, pods); err != nil {
			return 0, 0, err
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(most, int(expected), true)
		return expected, max(expected-int32(n), 0), err
	case least == nil:
		return 0, 0, nil
	case least.Type == intstr.Int:
		return int32(len(pods)), least.IntVal, nil
	}
	if expected, err = r.scaleOf(ctx, b, pods); err != nil {
		return 0, 0, err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(least, int(expected), true)
	return expected, int32(n), err
}

// errNoController is the error for a pod with a controller that does not exist.
var errNoController = errors.New("found no controllers")

// scaleOf returns the sum of the replicas of the pods' controllers. Pods without a controller do
// not count.
//
//upstream:pkg/controller/disruption.DisruptionController.getExpectedScale
func (r *reconciler) scaleOf(ctx context.Context, b *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (int32, error) {
	scales := map[types.UID]int32{}
	unmanaged := false
	for _, p := range pods {
		owner := metav1.GetControllerOf(p)
		if owner == nil {
			unmanaged = true
			continue
		}
		if _, known := scales[owner.UID]; known {
			continue
		}
		uid, n, err := r.replicas(ctx, p.Namespace, owner)
		if err != nil {
			return 0, err
		}
		if uid == "" {
			return 0, fmt.Errorf("%w for pod %q", errNoController, p.Name)
		}
		scales[uid] = n
	}
	if unmanaged {
		r.recorder.Eventf(b, corev1.EventTypeWarning, "UnmanagedPods", "Pods selected by this PodDisruptionBudget (selector: %v) were found "+
			"to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
			"To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.", b.Spec.Selector)
	}
	var sum int32
	for _, n := range scales {
		sum += n
	}
	return sum, nil
}

// replicas returns the controller of pods with its replicas. The controller of a Deployment's ReplicaSet is the
// Deployment. The UID is empty if the controller does not exist.
//
//upstream:pkg/controller/disruption.DisruptionController.finders
func (r *reconciler) replicas(ctx context.Context, namespace string, owner *metav1.OwnerReference) (types.UID, int32, error) {
	if !isApps(owner, "ReplicaSet") {
		return r.scale(ctx, namespace, owner)
	}
	rs := &appsv1.ReplicaSet{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: owner.Name}, rs); err != nil || rs.UID != owner.UID {
		return "", 0, client.IgnoreNotFound(err)
	}
	if above := metav1.GetControllerOf(rs); above != nil && isApps(above, "Deployment") {
		if uid, n, err := r.scale(ctx, namespace, above); err != nil || uid != "" {
			return uid, n, err
		}
	}
	return rs.UID, ptr.Deref(rs.Spec.Replicas, 1), nil
}

// isApps reports whether a reference is to an object of a kind in the API group apps.
//
//upstream:pkg/controller/disruption.verifyGroupKind
func isApps(ref *metav1.OwnerReference, kind string) bool {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	return gvk.GroupKind() == appsv1.SchemeGroupVersion.WithKind(kind).GroupKind()
}

// lacksSubresource reports whether an error means that a kind does not have the requested subresource, and not that
// the object does not exist: the response to such a request is no Status, or a Status without the object's name.
func lacksSubresource(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsNotFound(err) && (apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) ||
		status.Status().Details == nil || status.Status().Details.Name == "")
}

// scale returns a controller with the replicas in its subresource scale. The UID is empty if the controller does
// not exist.
//
//upstream:pkg/controller/disruption.DisruptionController.getScaleController
func (r *reconciler) scale(ctx context.Context, namespace string, owner *metav1.OwnerReference) (types.UID, int32, error) {
	gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	obj.SetNamespace(namespace)
	obj.SetName(owner.Name)
	scale := &autoscalingv1.Scale{}
	err := r.client.SubResource("scale").Get(ctx, obj, scale)
	switch {
	case lacksSubresource(err):
		mapping, err := r.mapper.RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
		if err != nil {
			return "", 0, err
		}
		return "", 0, fmt.Errorf("%s does not implement the scale subresource", mapping.Resource.GroupResource())
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return "", 0, nil
	case err != nil:
		return "", 0, err
	case scale.UID != owner.UID:
		return "", 0, nil
	}
	return owner.UID, scale.Spec.Replicas, nil
}
