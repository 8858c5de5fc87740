package main

import (
	"context"
	"net/http"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/hybrid/internal/flagservice"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/examples/internal/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hybrid returns the example with a flag service of its own.
func hybrid(t *testing.T) *example.Example {
	server := flagservice.New()
	url, stop, err := loopback.Serve(server)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return newExample(server, flagservice.NewClient(url, transport), url)
}

func TestTour(t *testing.T) { exampletest.Tour(t, hybrid(t)) }

func TestLocally(t *testing.T) {
	exampletest.Locally(t, hybrid(t), "kubectl get featureflags", "ConfigMap created.", "Synced is True.")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, hybrid(t), func(ctx context.Context, w *example.World) error {
		return await.Until(ctx, w.Client, &corev1.ConfigMapList{}, func(all []*corev1.ConfigMap) string {
			for _, cm := range all {
				if cm.Name == "shop" && cm.Data["dark-mode"] == "off" {
					return ""
				}
			}
			return "the flags are not copied"
		}, client.InNamespace("default"))
	})
}
