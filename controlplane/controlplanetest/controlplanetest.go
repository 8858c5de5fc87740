// Package controlplanetest helps tests that need a control plane: it starts control planes that stop with the test, and
// has clients, example objects, and a webhook server.
package controlplanetest

import (
	"context"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
)

// Start starts a control plane that is stopped when the test ends.
func Start(t testing.TB, o controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	plane, err := controlplane.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return plane
}

// FromKubeconfig returns a configuration for HTTPS from the kubeconfig of a control plane.
func FromKubeconfig(t testing.TB, plane *controlplane.ControlPlane) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CloseIdle(t, cfg) })
	return cfg
}

// CloseIdle closes the idle connections that client-go caches for the configuration.
func CloseIdle(t testing.TB, cfg *rest.Config) {
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Error(err)
		return
	}
	(&http.Client{Transport: transport}).CloseIdleConnections()
}
