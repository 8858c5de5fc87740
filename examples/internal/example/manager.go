package example

import (
	"net"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/healthz"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/webhook"
)

// newManager returns the manager of the operator for a cluster, which is not started. The changes
// are made to its options.
func (e *Example) newManager(cfg *rest.Config, f flags, changes ...func(*ctrl.Options)) (ctrl.Manager, error) {
	scheme, err := e.NewScheme()
	if err != nil {
		return nil, err
	}
	options := ctrl.Options{
		Scheme:                        scheme,
		Logger:                        f.logger,
		Metrics:                       server.Options{BindAddress: f.metricsAddress},
		HealthProbeBindAddress:        f.probeAddress,
		LeaderElection:                f.leaderElect,
		LeaderElectionID:              e.leaderElectionID(),
		LeaderElectionReleaseOnCancel: true,
		// Several replicas may run in one process.
		Controller: config.Controller{SkipNameValidation: new(true)},
	}
	if e.Options != nil {
		e.Options(&options)
	}
	for _, change := range changes {
		change(&options)
	}
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return nil, err
	}
	if err := e.SetUp(mgr); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("readyz", healthz.Ping)
}

// leaderElectionID returns the name of the Lease for which replicas of the operator compete.
func (e *Example) leaderElectionID() string { return e.Name + ".example.com" }

// onLoopback makes a manager serve webhooks, if the example has any, on a free port of this host.
func (e *Example) onLoopback(o *ctrl.Options) error {
	if e.Webhooks == nil {
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o.WebhookServer = webhook.NewServer(webhook.Options{
		Listener: listener, Install: e.installWebhooks(),
	})
	return nil
}

// installWebhooks returns how the webhooks are installed.
func (e *Example) installWebhooks() *webhook.Install {
	install := *e.Webhooks
	install.NamePrefix = e.Name + "-"
	return &install
}
