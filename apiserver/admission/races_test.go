package admission_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
)

// race calls f from 16 goroutines and returns how many calls succeeded. Another error than refused
// fails the test.
func race(t *testing.T, refused func(error) bool, f func(n int) error) int {
	var succeeded atomic.Int32
	var wait sync.WaitGroup
	for n := range 16 {
		wait.Go(func() {
			switch err := f(n); {
			case err == nil:
				succeeded.Add(1)
			case !refused(err):
				t.Error(err)
			}
		})
	}
	wait.Wait()
	return int(succeeded.Load())
}

// TestQuotaRace checks that concurrent writers succeed only within the tightest quota, and that the usage matches the
// objects.
func TestQuotaRace(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	admin, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
	for name, most := range map[string]string{"loose": "5", "tight": "3"} {
		q := controlplanetest.Must[*corev1.ResourceQuota](t)(admin.CoreV1().ResourceQuotas("default").Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse(most)}},
		}, metav1.CreateOptions{}))
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard,
			Used: corev1.ResourceList{"count/configmaps": resource.MustParse("0")}}
		controlplanetest.Must[*corev1.ResourceQuota](t)(admin.CoreV1().ResourceQuotas("default").UpdateStatus(ctx, q, metav1.UpdateOptions{}))
	}
	created := race(t, apierrors.IsForbidden, func(n int) error {
		_, err := admin.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c-", n)}}, metav1.CreateOptions{})
		return err
	})
	if created != 3 {
		t.Errorf("%d objects were created, want 3", created)
	}
	for _, q := range controlplanetest.Must[*corev1.ResourceQuotaList](t)(admin.CoreV1().ResourceQuotas("default").List(ctx, metav1.ListOptions{})).Items {
		if used := q.Status.Used["count/configmaps"]; used.Value() != 3 {
			t.Errorf("the quota %s has %s used", q.Name, used.String())
		}
	}
}

// TestEvictionRace: of concurrent evictions, only as many succeed as the budget allows.
func TestEvictionRace(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	admin, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
	labels := map[string]string{"app": "web"}
	for n := range 16 {
		pod := controlplanetest.ExamplePod(n)
		pod.Labels = labels
		created := controlplanetest.Must[*corev1.Pod](t)(admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
		created.Status = corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		controlplanetest.Must[*corev1.Pod](t)(admin.CoreV1().Pods("default").UpdateStatus(ctx, created, metav1.UpdateOptions{}))
	}
	budgets := admin.PolicyV1().PodDisruptionBudgets("default")
	b := controlplanetest.Must[*policyv1.PodDisruptionBudget](t)(budgets.Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(3)),
			Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{}))
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 3, CurrentHealthy: 16,
		DesiredHealthy: 13, ExpectedPods: 16}
	controlplanetest.Must[*policyv1.PodDisruptionBudget](t)(budgets.UpdateStatus(ctx, b, metav1.UpdateOptions{}))
	evicted := race(t, apierrors.IsTooManyRequests, func(n int) error {
		return admin.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Name: controlplanetest.ExamplePod(n).Name}})
	})
	if evicted != 3 {
		t.Errorf("%d pods were evicted, want 3", evicted)
	}
	b = controlplanetest.Must[*policyv1.PodDisruptionBudget](t)(budgets.Get(ctx, "web", metav1.GetOptions{}))
	if b.Status.DisruptionsAllowed != 0 || len(b.Status.DisruptedPods) != 3 {
		t.Errorf("the budget allows %d, with %d disrupted", b.Status.DisruptionsAllowed, len(b.Status.DisruptedPods))
	}
}

// TestOneWriterHasNoConflicts checks that concurrent writes of other objects do not disturb the only writer of an
// object: each read returns the last write, and each update is stored once.
func TestOneWriterHasNoConflicts(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, Listen: "127.0.0.1:0"})
	definitions := dynamic.NewForConfigOrDie(plane.Config()).Resource(
		schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	controlplanetest.Must[*unstructured.Unstructured](t)(definitions.Create(t.Context(), controlplanetest.Decode(t, controlplanetest.Widgets), metav1.CreateOptions{}))
	for name, cfg := range map[string]*rest.Config{"in-process": plane.Config(), "https": controlplanetest.Must[*rest.Config](t)(
		clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig()))} {
		cfg.QPS = -1
		client := dynamic.NewForConfigOrDie(cfg)
		resources := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
		t.Run(name, func(t *testing.T) {
			race(t, func(error) bool { return false }, func(n int) error {
				widget := controlplanetest.Decode(t, controlplanetest.ExampleWidget)
				widget.SetName(fmt.Sprintf("%s-%d", name, n))
				_, err := resources.Create(t.Context(), widget, metav1.CreateOptions{})
				for i := int64(0); i < 30 && err == nil; i++ {
					err = writeInTurn(t.Context(), resources, widget.GetName(), i)
				}
				return err
			})
		})
	}
}

// writeInTurn updates the spec and the status of a resource that was written i times before.
func writeInTurn(ctx context.Context, resources dynamic.ResourceInterface, name string, i int64) error {
	widget, err := resources.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if ready, _, _ := unstructured.NestedInt64(widget.Object, "status", "ready"); ready != i {
		return fmt.Errorf("%s was written %d times, and read as it was after %d", name, i, ready)
	}
	_ = unstructured.SetNestedField(widget.Object, 10+i, "spec", "replicas")
	if widget, err = resources.Update(ctx, widget, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if widget.GetGeneration() != i+2 {
		return fmt.Errorf("%s has generation %d, want %d", name, widget.GetGeneration(), i+2)
	}
	_ = unstructured.SetNestedField(widget.Object, i+1, "status", "ready")
	_, err = resources.UpdateStatus(ctx, widget, metav1.UpdateOptions{})
	return err
}
