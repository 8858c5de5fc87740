package disruption_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
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
			// The replacement of a pod is not ready before the next eviction.
			controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Delay: time.Second}}, func(e controllerstest.Env) {
				e.Must(e.Create(e.Context(), controllerstest.Deployment(3, "nginx:1")))
				tc.spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
				b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "web"}, Spec: tc.spec}
				e.Must(e.Create(e.Context(), b))
				e.WaitIdle()
				e.Must(e.Get(e.Context(), controllerstest.Web, b))
				if s := b.Status; s.CurrentHealthy != 3 || s.DesiredHealthy != 2 || s.ExpectedPods != 3 || s.DisruptionsAllowed != 1 ||
					!meta.IsStatusConditionTrue(s.Conditions, policyv1.DisruptionAllowedCondition) {
					t.Errorf("status: %+v", s)
				}
				first, second := evictable(e)[0], evictable(e)[1]
				if err := evict(e, first, client.DryRunAll); err != nil {
					t.Errorf("dry run: %v", err)
				}
				e.Must(evict(e, first))
				err := evict(e, second)
				if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "Cannot evict pod as it would violate the pod's disruption budget.") {
					t.Errorf("a second eviction: %v", err)
				}
				cause, _ := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
				if want := "The disruption budget web "; !strings.HasPrefix(cause.Message, want) {
					t.Errorf("cause %q, want %q", cause.Message, want)
				}
				e.WaitIdle()
				e.Must(evict(e, second)) // the first has been replaced
				other := b.DeepCopy()
				other.ObjectMeta = metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "other"}
				e.Must(e.Create(e.Context(), other))
				e.WaitIdle()
				if err := evict(e, evictable(e)[0]); err == nil || err.Error() != "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support." {
					t.Errorf("with two budgets: %v", err)
				}
			})
		})
	}
}

// TestBudgetsOfAPodThatLeaves changes the labels of a pod, so that the budgets that selected it do not select it any more.
func TestBudgetsOfAPodThatLeaves(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		var budgets []*policyv1.PodDisruptionBudget
		for _, name := range []string{"one", "two"} {
			b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: name},
				Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)),
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
			e.CreateAll(b)
			budgets = append(budgets, b)
		}
		var pod *corev1.Pod
		for _, name := range []string{"stays", "leaves"} {
			pod = controllerstest.Pod(name, "nginx:1")
			pod.Labels = map[string]string{"app": "web"}
			e.CreateAll(pod)
		}
		healthy := func(want int32) {
			e.WaitIdle()
			for _, b := range budgets {
				e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(b), b))
				if b.Status.CurrentHealthy != want {
					t.Errorf("the budget %s has %d healthy pods, want %d", b.Name, b.Status.CurrentHealthy, want)
				}
			}
		}
		healthy(2)
		e.Must(e.Patch(e.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"app":"other"}}}`))))
		healthy(1)
	})
}

// TestDisruptionsOfUnknownScale: the status of a budget does not change with each error that keeps it from
// being computed.
func TestDisruptionsOfUnknownScale(t *testing.T) {
	failures := 0
	failing := interceptor.Funcs{SubResourceGet: func(context.Context, client.Client, string, client.Object, client.Object,
		...client.SubResourceGetOption) error {
		failures++
		return fmt.Errorf("failure %d", failures)
	}}
	controllerstest.WithController(t, "disruption-controller", func(controllerstest.Env) interceptor.Funcs { return failing }, func(e controllerstest.Env) {
		p := controllerstest.PodOn("", "default", "p")
		p.Labels = map[string]string{"app": "web"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "s", UID: "s", Controller: new(true)}}
		revisions := e.CountRevisions()
		defer revisions.Stop()
		e.CreateAll(p)
		synctest.Wait() // the controller has seen the pod
		e.CreateAll(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: p.Labels}, MaxUnavailable: new(intstr.FromInt32(1))}})
		revisions.Wait(time.Minute)
		// The back-off allows 14 attempts in a minute. The first one writes the status.
		if events, others, kinds := revisions.In("default"); failures != 14 || events != 14 || others != 3 {
			t.Errorf("%d attempts, revisions: %s", failures, kinds)
		}
		b := &policyv1.PodDisruptionBudget{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "b"}, b))
		if c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition); c == nil || c.Reason != policyv1.SyncFailedReason || c.Message != "failure 1" {
			t.Errorf("condition %+v", c)
		}
	})
}

// TestDisruptionsOfJobs: a budget in percent does not count the pods of a Job, which has no subresource scale.
func TestDisruptionsOfJobs(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "j"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{pods.OutcomeAnnotation: pods.Running}},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "c"}}}}}}
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MaxUnavailable: new(intstr.FromInt32(1))}}
		e.CreateAll(job, b)
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(b), b))
		if c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition); c == nil || c.Reason != policyv1.SyncFailedReason ||
			c.Message != "jobs.batch does not implement the scale subresource" {
			t.Errorf("condition %+v", c)
		}
	})
}

// TestDisruptionsOfReplicaSetsOfOthers: the ReplicaSets of another kind than Deployment count themselves.
func TestDisruptionsOfReplicaSetsOfOthers(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "rollout"}}
		e.CreateAll(owner)
		d := controllerstest.Deployment(3, "nginx:1")
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "rs",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}},
			Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}}
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: d.Spec.Selector, MaxUnavailable: new(intstr.FromInt32(1))}}
		e.CreateAll(rs, b)
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(b), b))
		if s := b.Status; s.ExpectedPods != 3 || s.DisruptionsAllowed != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestStaleDisruptionTarget: the condition of a pod that nobody deletes is reset after two minutes, unless kubelet
// has set it.
func TestStaleDisruptionTarget(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		reasons := map[string]string{"evicted": "EvictionByEvictionAPI", "killed": corev1.PodReasonTerminationByKubelet}
		for name, reason := range reasons {
			p := controllerstest.Pod(name, "nginx:1")
			e.CreateAll(p)
			e.WaitIdle()
			e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(p), p))
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: reason, Message: "m", LastTransitionTime: metav1.Now()})
			e.Must(e.Status().Update(e.Context(), p))
		}
		state := func(name string) corev1.PodCondition {
			p := &corev1.Pod{}
			e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: controllerstest.Web.Namespace, Name: name}, p))
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.DisruptionTarget {
					return c
				}
			}
			return corev1.PodCondition{}
		}
		time.Sleep(time.Minute)
		e.WaitIdle()
		if c := state("evicted"); c.Status != corev1.ConditionTrue {
			t.Errorf("after a minute: %+v", c)
		}
		time.Sleep(time.Minute)
		e.WaitIdle()
		if c := state("evicted"); c.Status != corev1.ConditionFalse || c.Reason != "" || c.Message != "" {
			t.Errorf("after two minutes: %+v", c)
		}
		if c := state("killed"); c.Status != corev1.ConditionTrue {
			t.Errorf("the condition of kubelet: %+v", c)
		}
	})
}

// evictable returns the names of the pods that are not being deleted.
func evictable(e controllerstest.Env) []string {
	e.Helper()
	list := &corev1.PodList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(controllerstest.Web.Namespace)))
	var names []string
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	if len(names) < 2 {
		e.Fatal(fmt.Sprint("pods: ", names))
	}
	return names
}

func evict(e controllerstest.Env, name string, o ...client.SubResourceCreateOption) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: name}}
	return e.SubResource("eviction").Create(e.Context(), pod, &policyv1.Eviction{}, o...)
}
