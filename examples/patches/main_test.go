package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	patchesv1 "flyball.dev/examples/patches/api/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, patches) }

func TestLocally(t *testing.T) {
	exampletest.Locally(t, patches, "kubectl get overrides", "Deployment written.", "Ready is True.")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, patches, func(ctx context.Context, w *example.World) error {
		sample := &patchesv1.Override{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		return await.Object(ctx, w.Client, sample, func(o *patchesv1.Override) string {
			if !meta.IsStatusConditionTrue(o.Status.Conditions, patchesv1.ConditionReady) {
				return "the sample is not ready"
			}
			return ""
		})
	})
}
