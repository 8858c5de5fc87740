// Command hybrid is an operator for FeatureFlags: a ConfigMap with the flags of a project at a flag
// service for each. Events of the cluster drive it, and time drives it, because the flag service
// tells nobody when flags change. The flag service is an HTTP server in this process.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	"fmt"
	"os"

	"flyball.dev/ctrl"
	flagsv1 "flyball.dev/examples/hybrid/api/v1"
	"flyball.dev/examples/hybrid/config"
	"flyball.dev/examples/hybrid/internal/controller"
	"flyball.dev/examples/hybrid/internal/flagservice"
	"flyball.dev/examples/hybrid/internal/tour"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/loopback"
)

func main() {
	server := flagservice.New()
	url, stop, err := loopback.Serve(server)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hybrid:", err)
		os.Exit(1)
	}
	defer stop()
	newExample(server, flagservice.NewClient(url, nil), url).Main()
}

// newExample returns the example with a flag service, a client of it, and its URL.
func newExample(server *flagservice.Server, client *flagservice.Client, url string) *example.Example {
	server.Set("shop", map[string]string{"dark-mode": "off", "new-checkout": "off"})
	return &example.Example{
		Name:        "hybrid",
		Does:        "It copies the flags of projects at the flag service at " + url + " to ConfigMaps.",
		AddToScheme: flagsv1.AddToScheme,
		Config:      config.Files,
		SetUp: func(mgr ctrl.Manager) error {
			return (&controller.FeatureFlagsReconciler{
				Client:   mgr.GetClient(),
				Scheme:   mgr.GetScheme(),
				Recorder: mgr.GetEventRecorder("hybrid"),
				Service:  client,
			}).SetupWithManager(mgr)
		},
		Tour: func(w *example.World) []example.Step { return tour.Steps(w, server) },
		Invitation: `
kubectl get featureflags,configmaps
kubectl patch configmap shop --type merge -p '{"data":{"dark-mode":"on"}}'   # an event: restored at once
curl -X PUT ` + url + `/projects/shop -d '{"dark-mode":"on"}'   # no event: copied within 2 s
kubectl delete configmap shop`,
	}
}
