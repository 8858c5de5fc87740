package controllers_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/client"
)

// TestDisruptionBudgets evicts pods of a Deployment with a budget.
func TestDisruptionBudgets(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec policyv1.PodDisruptionBudgetSpec
	}{
		{"a least number", policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2))}},
		{"a largest share", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromString("30%"))}}, // of 3, rounded up: 1
	} {
		t.Run(tc.name, func(t *testing.T) {
			inVirtualTime(t, controllers.Options{}, func(w world) {
				w.must(w.Create(w.Context(), deployment(3, "nginx:1")))
				tc.spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
				b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "web"}, Spec: tc.spec}
				w.must(w.Create(w.Context(), b))
				w.waitIdle()
				w.must(w.Get(w.Context(), web, b))
				if s := b.Status; s.CurrentHealthy != 3 || s.DesiredHealthy != 2 || s.ExpectedPods != 3 || s.DisruptionsAllowed != 1 ||
					!meta.IsStatusConditionTrue(s.Conditions, policyv1.DisruptionAllowedCondition) {
					t.Errorf("status: %+v", s)
				}
				first, second := w.evictable()[0], w.evictable()[1]
				if err := w.evict(first, client.DryRunAll); err != nil {
					t.Errorf("dry run: %v", err)
				}
				w.must(w.evict(first))
				err := w.evict(second)
				if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "Cannot evict pod as it would violate the pod's disruption budget.") {
					t.Errorf("a second eviction: %v", err)
				}
				cause, _ := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
				if want := "The disruption budget web "; !strings.HasPrefix(cause.Message, want) {
					t.Errorf("cause %q, want %q", cause.Message, want)
				}
				w.waitIdle()
				w.must(w.evict(second)) // the first has been replaced
				other := b.DeepCopy()
				other.ObjectMeta = metav1.ObjectMeta{Namespace: web.Namespace, Name: "other"}
				w.must(w.Create(w.Context(), other))
				w.waitIdle()
				if err := w.evict(w.evictable()[0]); err == nil || err.Error() != "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support." {
					t.Errorf("with two budgets: %v", err)
				}
			})
		})
	}
}

// evictable returns the names of the pods that are not being deleted.
func (w world) evictable() []string {
	w.Helper()
	list := &corev1.PodList{}
	w.must(w.List(w.Context(), list, client.InNamespace(web.Namespace)))
	var names []string
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	if len(names) < 2 {
		w.Fatal(fmt.Sprint("pods: ", names))
	}
	return names
}

func (w world) evict(name string, o ...client.SubResourceCreateOption) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: name}}
	return w.SubResource("eviction").Create(w.Context(), pod, &policyv1.Eviction{}, o...)
}
