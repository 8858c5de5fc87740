package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tenancyv1 "flyball.dev/examples/applicationnamespace/api/v1"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, applicationNamespace) }

func TestLocally(t *testing.T) {
	exampletest.Locally(t, applicationNamespace,
		"kubectl get applicationnamespaces", "Namespace payments: created.", "Ready is True.")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, applicationNamespace, func(ctx context.Context, w *example.World) error {
		sample := &tenancyv1.ApplicationNamespace{ObjectMeta: metav1.ObjectMeta{Name: "payments"}}
		if err := await.Object(ctx, w.Client, sample, func(app *tenancyv1.ApplicationNamespace) string {
			if !meta.IsStatusConditionTrue(app.Status.Conditions, tenancyv1.ConditionReady) {
				return "the sample is not ready"
			}
			return ""
		}); err != nil {
			return err
		}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "payments"}}
		return await.Object(ctx, w.Client, ns, func(ns *corev1.Namespace) string {
			if !metav1.IsControlledBy(ns, sample) {
				return "the Namespace is not controlled by the sample"
			}
			return ""
		})
	})
}
