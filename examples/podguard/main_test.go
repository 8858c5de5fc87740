package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/examples/podguard/internal/controller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, podGuard) }

func TestLocally(t *testing.T) { exampletest.Locally(t, podGuard, "kubectl annotate pods") }

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, podGuard, func(ctx context.Context, w *example.World) error {
		var first *corev1.Pod
		if err := await.Until(ctx, w.Client, &corev1.PodList{}, func(all []*corev1.Pod) string {
			if len(all) == 0 {
				return "there is no Pod"
			}
			first = all[0].DeepCopy()
			return ""
		}, client.InNamespace("default")); err != nil {
			return err
		}
		patch := client.MergeFrom(first.DeepCopy())
		first.Annotations = map[string]string{controller.UsageAnnotation: "1Gi"}
		if err := w.Client.Patch(ctx, first, patch); err != nil {
			return err
		}
		return await.Gone(ctx, w.Client, first)
	})
}
