package pods_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

func TestPodLifecycle(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ips := map[string]bool{}
		for i := range 3 {
			e.CreateAll(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i)}, Spec: controllerstest.Template("a").Spec})
		}
		ended := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "z", Annotations: map[string]string{pods.OutcomeAnnotation: pods.Succeeded}}, Spec: controllerstest.Template("a").Spec}
		ended.Spec.RestartPolicy = corev1.RestartPolicyNever
		e.CreateAll(ended)
		e.WaitIdle()
		list := &corev1.PodList{}
		e.Must(e.List(e.Context(), list, client.InNamespace("default")))
		for _, p := range list.Items {
			ips[p.Status.PodIP] = true
			want := corev1.PodRunning
			if p.Name == "z" {
				want = corev1.PodSucceeded
			}
			if p.Status.Phase != want || p.Spec.NodeName != pods.NodeName || p.Status.StartTime == nil {
				t.Errorf("%s: %+v", p.Name, p.Status)
			}
		}
		if len(ips) != 4 || ips[""] {
			t.Errorf("addresses %v", ips)
		}
		node := &corev1.Node{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Name: pods.NodeName}, node))
		if c := node.Status.Conditions; len(c) != 4 || c[3].Type != corev1.NodeReady || c[3].Status != corev1.ConditionTrue {
			t.Errorf("the node: %+v", node.Status)
		}
		e.Must(e.Delete(e.Context(), &list.Items[0])) // with 30 seconds of grace
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(&list.Items[0]), &corev1.Pod{}); !apierrors.IsNotFound(err) {
			t.Errorf("the pod still exists: %v", err)
		}
	})
}

// interrupted is a storage that removes no pod while broken is set.
type interrupted struct {
	storage.Store
	broken atomic.Bool
}

func (s *interrupted) Delete(ctx context.Context, key string, revision uint64) (*storage.Record, error) {
	if strings.Contains(key, "/pods/") && s.broken.Load() {
		return nil, errors.New("interrupted")
	}
	return s.Store.Delete(ctx, key, revision)
}

// TestInterruptedDeletion deletes a pod, which is marked and then not removed,
// neither for the client nor for the controller that sees the mark.
func TestInterruptedDeletion(t *testing.T) {
	backend := &interrupted{Store: memory.New(memory.Options{})}
	controllerstest.WithControlPlane(t, controlplane.Options{Storage: backend}, func(e controllerstest.Env) {
		pod := controllerstest.Pod("a", "nginx:1")
		e.CreateAll(pod)
		e.WaitIdle()
		backend.broken.Store(true)
		err := e.Delete(e.Context(), pod, client.GracePeriodSeconds(0))
		backend.broken.Store(false)
		if err == nil {
			t.Error("the deletion was not interrupted")
		}
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
			t.Errorf("the pod is %+v, %v", pod.ObjectMeta, err)
		}
	})
}
