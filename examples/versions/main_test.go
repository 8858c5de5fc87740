package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	netv1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/examples/versions/api/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, newExample()) }

func TestLocally(t *testing.T) {
	exampletest.Locally(t, newExample(), "kubectl get proxies", "alpha  ConfigMap created.", "beta  ConfigMap created.",
		"stable  ConfigMap created.")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, newExample(), func(ctx context.Context, w *example.World) error {
		if err := await.Until(ctx, w.Client, &corev1.ConfigMapList{}, func(all []*corev1.ConfigMap) string {
			for _, cm := range all {
				if cm.Name == "alpha-proxy" && metav1.GetControllerOf(cm) != nil {
					return ""
				}
			}
			return "the Proxy has no ConfigMap"
		}, client.InNamespace("default")); err != nil {
			return err
		}
		alpha, hub := &v1alpha1.Proxy{}, &netv1.Proxy{}
		key := client.ObjectKey{Namespace: "default", Name: "alpha"}
		for _, proxy := range []client.Object{alpha, hub} {
			if err := w.Client.Get(ctx, key, proxy); err != nil {
				return err
			}
		}
		if alpha.Spec.Balancing != "Random" || hub.Spec.Balancing != "RoundRobin" || hub.Spec.Host != "alpha.example.com" {
			t.Errorf("got %+v and %+v", alpha.Spec, hub.Spec)
		}
		return nil
	})
}
