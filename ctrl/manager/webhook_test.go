package manager_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/healthz"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/webhook"
)

// remote is a configuration of an API server that is not in this process.
var remote = &rest.Config{Host: "http://127.0.0.1:1"}

func newWebhookManager(t *testing.T, server webhook.Server) manager.Manager {
	t.Helper()
	mgr, err := manager.New(remote, manager.Options{Metrics: metricsserver.Options{BindAddress: "0"}, WebhookServer: server})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func TestWebhookServerWithoutCertificate(t *testing.T) {
	mgr := newWebhookManager(t, webhook.NewServer(webhook.Options{CertDir: t.TempDir()}))
	if mgr.GetWebhookServer() != mgr.GetWebhookServer() {
		t.Error("there are two webhook servers")
	}
	cached := errors.New("the caches were started")
	err := errors.Join(mgr.Add(manager.RunnableFunc(func(context.Context) error { return cached })))
	if err != nil {
		t.Fatal(err)
	}
	err = mgr.Start(t.Context())
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "tls.crt") || errors.Is(err, cached) {
		t.Errorf("the error is %v", err)
	}
}

func TestWebhookServerIsNotStartedUnlessItIsUsed(t *testing.T) {
	mgr := newWebhookManager(t, webhook.NewServer(webhook.Options{CertDir: t.TempDir()}))
	done := errors.New("done")
	if err := mgr.Add(manager.RunnableFunc(func(context.Context) error { return done })); err != nil {
		t.Fatal(err)
	}
	if err := mgr.Start(t.Context()); !errors.Is(err, done) {
		t.Errorf("the error is %v", err)
	}
	defer func() {
		if got, ok := recover().(string); !ok || !strings.HasPrefix(got, "unable to add webhook server to the controller manager") {
			t.Errorf("recovered %v", got)
		}
	}()
	mgr.GetWebhookServer()
}

// ownServer is a webhook server that is not of package webhook.
type ownServer struct {
	webhook.Server
	started chan struct{}
}

func (s *ownServer) NeedLeaderElection() bool        { return false }
func (s *ownServer) Register(string, http.Handler)   {}
func (s *ownServer) StartedChecker() healthz.Checker { return healthz.Ping }
func (s *ownServer) WebhookMux() *http.ServeMux      { return nil }
func (s *ownServer) Start(ctx context.Context) error { close(s.started); <-ctx.Done(); return nil }

func TestOwnWebhookServer(t *testing.T) {
	server := &ownServer{started: make(chan struct{})}
	mgr := newWebhookManager(t, server)
	if mgr.GetWebhookServer() != webhook.Server(server) {
		t.Error("the webhook server is another one")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	<-server.started
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if mgr.GetConverterRegistry() == nil || mgr.GetConverterRegistry() != mgr.GetConverterRegistry() {
		t.Error("there is no converter registry")
	}
}
