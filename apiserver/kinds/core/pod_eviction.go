package core

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/dump"

	"flyball.dev/apiserver/kinds"
)

// Budgets are the PodDisruptionBudgets that evictions ask. The kind PodDisruptionBudget sets Stored.
type Budgets struct {
	Stored kinds.Stored[*policyv1.PodDisruptionBudget]
}

// evictionREST is the subresource pods/eviction, which deletes a pod unless a disruption budget forbids
// the disruption. Clients that drain a node use the subresource.
//
//upstream:pkg/registry/core/pod/storage.EvictionREST
type evictionREST struct {
	pods    kinds.Stored[*corev1.Pod]
	budgets *Budgets
}

var _ rest.NamedCreater = (*evictionREST)(nil)

func (r *evictionREST) New() runtime.Object { return &policyv1.Eviction{} }
func (r *evictionREST) Destroy()            {}

func (r *evictionREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return policyv1.SchemeGroupVersion.WithKind("Eviction")
}

// Create deletes the pod if the disruption budget allows the disruption.
//
//upstream:pkg/registry/core/pod/storage.EvictionREST.Create
//upstream:pkg/registry/core/pod/storage.propagateDryRun
func (r *evictionREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	eviction, ok := obj.(*policyv1.Eviction)
	if !ok {
		return nil, errors.NewBadRequest(fmt.Sprintf("not a Eviction object: %s", dump.OneLine(obj)))
	}
	if eviction.Name != name {
		return nil, errors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	how := &metav1.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		how = eviction.DeleteOptions.DeepCopy()
	}
	switch {
	case len(how.DryRun) == 0:
		how.DryRun = options.DryRun
	case len(options.DryRun) > 0 && !slices.Equal(how.DryRun, options.DryRun):
		//lint:ignore ST1005 clients know this text of kube-apiserver
		return nil, fmt.Errorf("Non-matching dry-run options in request and content: %v and %v", options.DryRun, how.DryRun)
	}
	if validate != nil {
		if err := validate(ctx, eviction.DeepCopy()); err != nil {
			return nil, err
		}
	}
	if err := r.evict(ctx, name, how); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Code: 201}, nil
}

// evict deletes the pod if the budget allows the disruption. If the pod is not ready, evict deletes only
// the version that it has read: a later version may be ready, and count for the budget.
//
//upstream:pkg/registry/core/pod/storage.EvictionREST.Create
//upstream:pkg/registry/core/pod/storage.shouldEnforceResourceVersion
//upstream:pkg/registry/core/pod/storage.resourceVersionIsUnset
//upstream:pkg/registry/core/pod/storage.setPreconditionsResourceVersion
func (r *evictionREST) evict(ctx context.Context, name string, how *metav1.DeleteOptions) error {
	pinned := how.Preconditions != nil && how.Preconditions.ResourceVersion != nil
	for attempt := 0; ; attempt++ {
		pod, err := r.pods.Get(ctx, name)
		if err != nil {
			return err
		}
		budget, unready, err := r.allow(ctx, pod, len(how.DryRun) > 0)
		if err != nil {
			return err
		}
		options := how
		if unready && !pinned {
			options = how.DeepCopy()
			if options.Preconditions == nil {
				options.Preconditions = &metav1.Preconditions{}
			}
			options.Preconditions.ResourceVersion = &pod.ResourceVersion
		}
		err = r.remove(ctx, name, options)
		switch {
		case !errors.IsConflict(err) || !unready || pinned:
			return err
		case budget != "":
			return tooManyRequests(budget)
		case attempt >= maxEvictionAttempts:
			return err
		}
	}
}

// maxEvictionAttempts is the number of retries after conflicts with other writers of the pod.
//
//upstream:pkg/registry/core/pod/storage.EvictionsRetry
const maxEvictionAttempts = 20

// allow returns an error if a budget forbids the disruption. Otherwise it records the disruption in the
// budget, except in a dry run. It returns the name of the budget, and whether the pod may go only because
// it is not ready.
//
//upstream:pkg/registry/core/pod/storage.EvictionREST.Create
//upstream:pkg/registry/core/pod/storage.canIgnorePDB
func (r *evictionREST) allow(ctx context.Context, pod *corev1.Pod, dryRun bool) (budget string, unready bool, err error) {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed, pod.DeletionTimestamp != nil:
		return "", false, nil
	case pod.Status.Phase == corev1.PodPending:
		return "", true, nil
	}
	budgets, err := r.budgetsOf(ctx, pod)
	if err != nil || len(budgets) == 0 {
		return "", false, err
	}
	if len(budgets) > 1 {
		return "", false, &errors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
	}
	b := budgets[0]
	if ready := podCondition(pod, corev1.PodReady); ready == nil || ready.Status != corev1.ConditionTrue {
		always := b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
		if always || b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0 {
			return b.Name, true, nil
		}
	}
	var dry []string
	if dryRun {
		dry = []string{metav1.DryRunAll}
	}
	_, err = r.budgets.Stored.Update(ctx, b.Name, dry, func(b *policyv1.PodDisruptionBudget) error { return disrupt(b, pod.Name) })
	return b.Name, false, err
}

// budgetsOf returns the budgets that select a pod.
//
//upstream:pkg/registry/core/pod/storage.EvictionREST.getPodDisruptionBudgets
func (r *evictionREST) budgetsOf(ctx context.Context, pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	if r.budgets.Stored == nil {
		return nil, nil
	}
	var found []*policyv1.PodDisruptionBudget
	return found, r.budgets.Stored.List(ctx, func(b *policyv1.PodDisruptionBudget) {
		if b.Namespace != pod.Namespace {
			return
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, b)
		}
	})
}

// maxDisruptedPods is the maximum number of evicted pods that the controller of the budget has not
// observed yet.
//
//upstream:pkg/registry/core/pod/storage.MaxDisruptedPodSize
const maxDisruptedPods = 2000

// disrupt takes one disruption from a budget for a pod.
//
//upstream:pkg/registry/core/pod/storage.EvictionREST.checkAndDecrement
//upstream:k8s.io/component-helpers/apps/poddisruptionbudget.UpdateDisruptionAllowedCondition
func disrupt(b *policyv1.PodDisruptionBudget, pod string) error {
	budgets := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}
	s := &b.Status
	switch {
	case s.ObservedGeneration < b.Generation:
		return tooManyRequests(b.Name)
	case s.DisruptionsAllowed < 0:
		return errors.NewForbidden(budgets, b.Name, fmt.Errorf("pdb disruptions allowed is negative"))
	case len(s.DisruptedPods) > maxDisruptedPods:
		return errors.NewForbidden(budgets, b.Name, fmt.Errorf("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case s.DisruptionsAllowed == 0:
		return violated(b)
	}
	s.DisruptionsAllowed--
	if s.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
			Reason: policyv1.InsufficientPodsReason, ObservedGeneration: s.ObservedGeneration,
		})
	}
	if s.DisruptedPods == nil {
		s.DisruptedPods = map[string]metav1.Time{}
	}
	s.DisruptedPods[pod] = metav1.Now()
	return nil
}

// violatesBudget is the message of the error for an eviction that the budget does not allow.
//
//upstream:pkg/registry/core/pod/storage.createTooManyRequestsError
//upstream:pkg/registry/core/pod/storage.EvictionREST.checkAndDecrement
const violatesBudget = "Cannot evict pod as it would violate the pod's disruption budget."

// tooManyRequests returns the error for an eviction while the status of the budget is out of date.
//
//upstream:pkg/registry/core/pod/storage.createTooManyRequestsError
func tooManyRequests(budget string) error {
	return withCause(errors.NewTooManyRequests(violatesBudget, 10), fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget))
}

// violated returns the error for an eviction that the budget forbids.
//
//upstream:pkg/registry/core/pod/storage.EvictionREST.checkAndDecrement
func violated(b *policyv1.PodDisruptionBudget) error {
	s := &b.Status
	message := fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
	c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	explained := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case explained && c.Reason == policyv1.SyncFailedReason:
		message += " because it failed sync: " + c.Message
	case s.CurrentHealthy <= s.DesiredHealthy:
		message = fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, s.DesiredHealthy, s.CurrentHealthy)
	case explained:
		message += fmt.Sprintf(" (%s): %s", c.Reason, c.Message)
	}
	return withCause(errors.NewTooManyRequests(violatesBudget, 0), message)
}

// withCause adds the budget's explanation to an error.
func withCause(err *errors.StatusError, message string) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	return err
}

// remove records the reason in a condition of the pod, and deletes the pod.
//
//upstream:pkg/registry/core/pod/storage.addConditionAndDeletePod
func (r *evictionREST) remove(ctx context.Context, name string, how *metav1.DeleteOptions) error {
	if len(how.DryRun) > 0 {
		return r.pods.Delete(ctx, name, how)
	}
	updated, err := r.pods.Update(ctx, name, nil, func(p *corev1.Pod) error {
		if pre := how.Preconditions; pre != nil {
			if uid := pre.UID; uid != nil && *uid != "" && *uid != p.UID {
				return errors.NewConflict(schema.GroupResource{Resource: "Pod"}, p.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *uid, p.UID))
			}
			if v := pre.ResourceVersion; v != nil && *v != "" && *v != p.ResourceVersion {
				return errors.NewConflict(schema.GroupResource{Resource: "Pod"}, p.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *v, p.ResourceVersion))
			}
		}
		c := podCondition(p, corev1.DisruptionTarget)
		if c == nil {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget})
			c = &p.Status.Conditions[len(p.Status.Conditions)-1]
		}
		if c.Status != corev1.ConditionTrue {
			c.LastTransitionTime = metav1.Now()
		}
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "EvictionByEvictionAPI", "Eviction API: evicting"
		return nil
	})
	if err != nil {
		return err
	}
	if how.Preconditions != nil && how.Preconditions.ResourceVersion != nil {
		how = how.DeepCopy()
		how.Preconditions.ResourceVersion = &updated.ResourceVersion
	}
	return r.pods.Delete(ctx, name, how)
}
