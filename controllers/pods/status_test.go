package pods_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/podgc"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// TestPodStatusWrittenMeanwhile: a controller that writes a condition of a pod neither fails because
// somebody else writes another one at the same time, nor undoes that.
func TestPodStatusWrittenMeanwhile(t *testing.T) {
	node := func(taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	for name, tt := range map[string]struct {
		node string
		make []client.Object
		want corev1.PodConditionType
	}{
		"taint-eviction-controller":        {"n", []client.Object{node(corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute})}, corev1.DisruptionTarget},
		"pod-garbage-collector-controller": {"gone", nil, corev1.DisruptionTarget},
		"scheduler":                        {"", []client.Object{node()}, corev1.PodScheduled},
	} {
		t.Run(name, func(t *testing.T) {
			var failed, written atomic.Bool
			meanwhile := func(e controllerstest.Env, pod client.Object) {
				if written.Swap(true) {
					return
				}
				now := &corev1.Pod{}
				e.Must(e.Get(context.Background(), client.ObjectKeyFromObject(pod), now))
				podstate.SetCondition(&now.Status, corev1.PodCondition{Type: "example.com/mine", Status: corev1.ConditionTrue})
				e.Must(e.Status().Update(context.Background(), now))
			}
			controllerstest.WithController(t, name, func(e controllerstest.Env) interceptor.Funcs {
				return interceptor.Funcs{
					SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
						meanwhile(e, o)
						err := c.SubResource(sub).Update(ctx, o, opts...)
						failed.Store(failed.Load() || err != nil)
						return err
					},
					SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
						meanwhile(e, o)
						err := c.SubResource(sub).Patch(ctx, o, patch, opts...)
						failed.Store(failed.Load() || err != nil)
						return err
					},
				}
			}, func(e controllerstest.Env) {
				e.CreateAll(tt.make...)
				pod := controllerstest.PodOn(tt.node, "default", "p")
				pod.Finalizers = []string{"example.com/stay"}
				e.CreateAll(pod)
				time.Sleep(podgc.Quarantine) // virtual
				e.WaitIdle()
				e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(pod), pod))
				if !written.Load() || failed.Load() || podstate.Condition(pod, "example.com/mine") == nil || podstate.Condition(pod, tt.want) == nil {
					t.Errorf("written meanwhile %v, failed %v, the conditions are %+v", written.Load(), failed.Load(), pod.Status.Conditions)
				}
				pod.Finalizers = nil
				e.Must(client.IgnoreNotFound(e.Update(e.Context(), pod)))
			})
		})
	}
}

// TestPodStatusOfAnother: the status of a pod is not written to another pod of its name.
func TestPodStatusOfAnother(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
		pod := controllerstest.PodOn("n", "default", "p")
		e.CreateAll(pod)
		e.Must(e.Delete(e.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0)))
		e.CreateAll(controllerstest.PodOn("n", "default", "p"))
		err := podstate.PatchStatus(e.Context(), e.WithWatch, pod, func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.uid") {
			t.Errorf("got %v", err)
		}
	})
}
