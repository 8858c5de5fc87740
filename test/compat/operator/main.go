// Command operator is an operator that uses every package of controller-runtime. It runs in a cluster with the kind
// Widget, acts as a user of its own resources and webhooks, and prints its observations. The output does not depend on
// the runtime that it is built with.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/test/compat/operator/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// flags are the addresses that the operator serves on, and the directory of its certificate.
type flags struct {
	certificates, metrics, probes string
	webhooks                      int
}

func main() {
	var f flags
	flag.StringVar(&f.certificates, "certificates", "", "directory of tls.crt and tls.key")
	flag.StringVar(&f.metrics, "metrics", "", "address of the metrics server")
	flag.StringVar(&f.probes, "probes", "", "address of the probes")
	flag.IntVar(&f.webhooks, "webhooks", 0, "port of the webhooks")
	var options zap.Options
	options.BindFlags(flag.CommandLine)
	flag.Parse()
	log.SetLogger(zap.New(zap.UseFlagOptions(&options)))
	ctx, cancel := context.WithTimeout(signals.SetupSignalHandler(), time.Minute)
	defer cancel()
	if err := run(ctx, f); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts the manager, runs the scenario, and stops the manager.
func run(ctx context.Context, f flags) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mgr, err := newManager(f)
	if err != nil {
		return err
	}
	s := scenario{flags: f, mgr: mgr, in: make(chan event.TypedGenericEvent[string]), out: make(chan string, 1), finalized: make(chan string, 1)}
	if err := addControllers(mgr, func(obj client.Object) { s.finalized <- obj.GetName() }, s.in, s.out); err != nil {
		return err
	}
	if err := addWebhooks(mgr); err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &api.Widget{}, "spec.color", func(obj client.Object) []string {
		return []string{obj.(*api.Widget).Spec.Color}
	}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case <-mgr.Elected():
	case err := <-ended:
		return fmt.Errorf("the manager has ended: %w", err)
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	fmt.Println("stopped")
	return nil
}

// newManager returns a manager with all its servers and leader election.
func newManager(f flags) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := (&runtime.SchemeBuilder{clientgoscheme.AddToScheme, api.AddToScheme}).AddToScheme(scheme); err != nil {
		return nil, err
	}
	watcher, err := certwatcher.New(filepath.Join(f.certificates, "tls.crt"), filepath.Join(f.certificates, "tls.key"))
	if err != nil {
		return nil, err
	}
	restConfig, err := config.GetConfig()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(restConfig, manager.Options{
		Scheme:                        scheme,
		Controller:                    controllerDefaults(),
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}}},
		HealthProbeBindAddress:        f.probes,
		LeaderElection:                true,
		LeaderElectionID:              "compat",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{
			BindAddress: f.metrics, SecureServing: true, CertDir: f.certificates,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: f.webhooks, TLSOpts: []func(*tls.Config){
			func(c *tls.Config) { c.GetCertificate = watcher.GetCertificate },
		}}),
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(watcher); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker())
}
