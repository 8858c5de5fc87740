package plans

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	scalefake "k8s.io/client-go/scale/fake"
	upstream "k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/disruption"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestPodDisruptionBudgets compares the status of PodDisruptionBudgets.
func TestPodDisruptionBudgets(t *testing.T) {
	comparison{
		name:    "disruption",
		worlds:  1000,
		atLeast: map[string]int{"update status of poddisruptionbudgets.policy": 80},
		kinds: []client.Object{&policyv1.PodDisruptionBudget{}, &corev1.Pod{}, &corev1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.Deployment{},
			&appsv1.StatefulSet{}},
		add: disruption.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			d := upstream.NewDisruptionController(ctx, f.Core().V1().Pods(), f.Policy().V1().PodDisruptionBudgets(), f.Core().V1().ReplicationControllers(),
				f.Apps().V1().ReplicaSets(), f.Apps().V1().Deployments(), f.Apps().V1().StatefulSets(), c, testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme),
				&scalefake.FakeScaleClient{}, c.Discovery())
			return func(ctx context.Context) { d.Run(ctx, 1) }, nil
		},
		generate: generateBudget,
	}.compare(t)
}

func generateBudget(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	amount := func() *intstr.IntOrString {
		return ptr.To(random.Pick(s, intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(3), intstr.FromString("30%"), intstr.FromString("50%"),
			intstr.FromString("100%"), intstr.FromString("0%")))
	}
	b := &policyv1.PodDisruptionBudget{ObjectMeta: object(s, ns, "x"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: newSelector(s)}}
	if s.Chance(50) {
		b.Spec.MinAvailable = amount()
	} else {
		b.Spec.MaxUnavailable = amount()
	}
	objects := []client.Object{b}
	d := &appsv1.Deployment{ObjectMeta: object(s, ns, "d"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(s.IntN(6)))}}
	rs := &appsv1.ReplicaSet{ObjectMeta: object(s, ns, "rs"), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(s.IntN(6)))}}
	other := &appsv1.ReplicaSet{ObjectMeta: object(s, ns, "other"), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(s.IntN(6)))}}
	set := &appsv1.StatefulSet{ObjectMeta: object(s, ns, "set"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(s.IntN(6)))}}
	rc := &corev1.ReplicationController{ObjectMeta: object(s, ns, "rc"), Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To(int32(s.IntN(6)))}}
	rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, kindOf(d))}
	owners := []client.Object{rs, rs, rs, other, set, rc}
	objects = append(objects, d, rs, other, set, rc)
	owner, gone := random.Pick(s, owners...), false
	for i := range s.IntN(8) {
		meta := object(s, ns, fmt.Sprint("p", i))
		meta.Labels = labelled(s)
		if s.Chance(15) {
			owner = random.Pick(s, owners...)
		}
		if s.Chance(95) {
			meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kindOf(owner))}
			if !gone && s.Chance(3) {
				gone = true
				meta.OwnerReferences[0].UID = "gone"
			}
		}
		pod := newPod(s, meta)
		objects = append(objects, pod)
		if s.Chance(15) {
			if b.Status.DisruptedPods == nil {
				b.Status.DisruptedPods = map[string]metav1.Time{}
			}
			b.Status.DisruptedPods[pod.Name] = metav1.NewTime(ago(s))
		}
	}
	if s.Chance(30) {
		c := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionTrue, Reason: policyv1.SufficientPodsReason}
		if s.Chance(50) {
			c.Status, c.Reason = metav1.ConditionFalse, random.Pick(s, policyv1.InsufficientPodsReason, policyv1.SyncFailedReason)
		}
		c.LastTransitionTime = metav1.NewTime(ago(s))
		b.Status.Conditions = []metav1.Condition{c}
	}
	return objects, b, nil
}
