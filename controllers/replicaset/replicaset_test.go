package replicaset_test

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// TestEventsOfFailures runs against a server that rejects pods.
func TestEventsOfFailures(t *testing.T) {
	rejected := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota: few"))
	controllerstest.WithController(t, "replicaset-controller", func(controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if _, ok := obj.(*corev1.Pod); ok {
					return rejected
				}
				return c.Create(ctx, obj, opts...)
			},
		}
	}, func(e controllerstest.Env) {
		n := int32(1)
		e.CreateAll(&appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.ReplicaSetSpec{Replicas: &n, Template: controllerstest.Template("a"),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		})
		e.WaitIdle()
		e.WantEvents("ReplicaSet", "web", "Warning FailedCreate replicaset-controller: Error creating: "+rejected.Error())
	})
}

func TestReplicaSetAdoptsReleasesAndReplaces(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray", Labels: map[string]string{"app": "web"}}, Spec: controllerstest.Template("a").Spec}
		e.CreateAll(stray)
		n := int32(3)
		rs := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: controllerstest.Template("a")},
		}
		e.CreateAll(rs)
		e.WaitIdle()
		e.WantPods("a ready", "a ready", "a ready")
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(stray), stray))
		if !metav1.IsControlledBy(stray, rs) {
			t.Error("the stray pod was not adopted")
		}

		before := client.MergeFrom(stray.DeepCopy())
		stray.Labels = map[string]string{"app": "other"}
		e.Must(e.Patch(e.Context(), stray, before))
		e.WaitIdle()
		e.WantPods("a ready", "a ready", "a ready", "a ready")
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(stray), stray))
		if len(stray.OwnerReferences) > 0 {
			t.Error("the pod was not released")
		}
		e.Must(e.Delete(e.Context(), stray))

		list := &corev1.PodList{}
		e.Must(e.List(e.Context(), list, client.InNamespace("default"), client.MatchingLabels{"app": "web"}))
		e.Must(e.Delete(e.Context(), &list.Items[0]))
		e.WaitIdle()
		e.WantPods("a ready", "a ready", "a ready")

		e.Must(e.Delete(e.Context(), rs, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		e.WaitIdle()
		e.WantPods("a ready", "a ready", "a ready")
	})
}
