package main

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	podwebhook "flyball.dev/examples/sidecar/internal/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, sidecar) }

func TestLocally(t *testing.T) { exampletest.Locally(t, sidecar, "kubectl run meshed") }

// TestOnCluster creates a Pod by way of the webhook, which the API server calls at --webhook-host.
func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, sidecar, func(ctx context.Context, w *example.World) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "meshed",
				Labels: map[string]string{podwebhook.InjectLabel: "true"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:1.29"}}},
		}
		if err := w.Client.Create(ctx, pod); err != nil {
			return err
		}
		if len(pod.Spec.InitContainers) != 1 || pod.Spec.InitContainers[0].Name != podwebhook.ContainerName {
			return fmt.Errorf("the Pod has the init containers %v", pod.Spec.InitContainers)
		}
		return nil
	})
}
