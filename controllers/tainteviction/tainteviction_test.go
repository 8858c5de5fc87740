package tainteviction

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/fake"
	"flyball.dev/ctrl/client/interceptor"
	"flyball.dev/ctrl/reconcile"
)

// TestEvictionFails: the time for which a pod tolerates a taint does not begin again with a failed eviction.
func TestEvictionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tolerated := int64(300)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{
			NodeName:    "n",
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: &tolerated}},
		}}
		failure := errors.New("the server is busy")
		c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pod).WithStatusSubresource(pod).
			WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, subresource string,
				obj client.Object, patch client.Patch, o ...client.SubResourcePatchOption) error {
				if failure != nil {
					return failure
				}
				return c.SubResource(subresource).Patch(ctx, obj, patch, o...)
			}}).Build()
		r := &reconciler{
			client: c, recorder: record.NewFakeRecorder(10), scheduled: map[types.NamespacedName]eviction{},
			taints: map[string][]corev1.Taint{"n": {{Key: "k", Effect: corev1.TaintEffectNoExecute}}},
		}
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)}
		result, err := r.Reconcile(t.Context(), request)
		if err != nil || result.RequeueAfter != 300*time.Second {
			t.Fatalf("%+v, %v", result, err)
		}
		time.Sleep(result.RequeueAfter)
		for range 2 {
			if result, err := r.Reconcile(t.Context(), request); !errors.Is(err, failure) {
				t.Fatalf("%+v, %v", result, err)
			}
		}
		failure = nil
		if result, err := r.Reconcile(t.Context(), request); err != nil || !result.IsZero() {
			t.Fatalf("%+v, %v", result, err)
		}
		if err := c.Get(t.Context(), request.NamespacedName, pod); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("the pod is there, or %v", err)
		}
		if result, err := r.Reconcile(t.Context(), request); err != nil || !result.IsZero() || len(r.scheduled) > 0 {
			t.Errorf("%+v, %v, %v", result, err, r.scheduled)
		}
	})
}
