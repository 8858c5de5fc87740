package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/healthz"
	"flyball.dev/ctrl/log"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/internal/reserve/reservetest"
)

// unusedConfig is the config of a server to which no request is sent.
var unusedConfig = &rest.Config{Host: "http://nowhere.test"}

var noMetrics = metricsserver.Options{BindAddress: "0"}

func newManager(t *testing.T, options Options) *manager {
	t.Helper()
	m, err := New(unusedConfig, options)
	if err != nil {
		t.Fatal(err)
	}
	return m.(*manager)
}

// start starts m and returns how to end it.
func (m *manager) begin(t *testing.T) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	select {
	case <-m.Elected():
	case err := <-ended:
		t.Fatal(err)
	}
	return func() error { cancel(); return <-ended }
}

// taken returns an address that is in use.
func taken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestEndpoints(t *testing.T) {
	m := newManager(t, Options{Metrics: noMetrics, HealthProbeBindAddress: reservetest.Address(t), PprofBindAddress: reservetest.Address(t), ReadinessEndpointName: "/ready"})
	if err := errors.Join(
		m.AddHealthzCheck("ping", func(*http.Request) error { return errors.New("replaced") }),
		m.AddHealthzCheck("ping", healthz.Ping),
		m.AddReadyzCheck("not yet", func(*http.Request) error { return errors.New("wait") }),
	); err != nil {
		t.Fatal(err)
	}
	stop := m.begin(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		listener net.Listener
		path     string
		code     int
	}{
		{m.healthProbeListener, "/healthz", 200}, {m.healthProbeListener, "/healthz/", 200}, {m.healthProbeListener, "/healthz/ping", 200}, {m.healthProbeListener, "/healthz/pong", 404},
		{m.healthProbeListener, "/ready", 500}, {m.healthProbeListener, "/ready/not%20yet", 500}, {m.healthProbeListener, "/readyz", 404}, {m.healthProbeListener, "/metrics", 404},
		{m.pprof, "/debug/pprof/", 200}, {m.pprof, "/debug/pprof/goroutine", 200}, {m.pprof, "/debug/pprof/cmdline", 200}, {m.pprof, "/", 404},
	} {
		resp, err := client.Get("http://" + c.listener.Addr().String() + c.path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.code {
			t.Errorf("%s: %d, want %d", c.path, resp.StatusCode, c.code)
		}
	}

	for what, err := range map[string]error{
		"a health check":    m.AddHealthzCheck("late", healthz.Ping),
		"a readiness check": m.AddReadyzCheck("late", healthz.Ping),
		"a metrics handler": m.AddMetricsServerExtraHandler("/late", http.NotFoundHandler()),
		"a second start":    m.Start(t.Context()),
	} {
		if err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("%s after the start: %v", what, err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, l := range []net.Listener{m.healthProbeListener, m.pprof} {
		again, err := net.Listen("tcp", l.Addr().String())
		if err != nil {
			t.Errorf("the port is not free after the end: %v", err)
			continue
		}
		_ = again.Close()
	}
}

func TestRequestsDoNotHoldUpTheEnd(t *testing.T) {
	m := newManager(t, Options{
		Metrics: noMetrics, HealthProbeBindAddress: "127.0.0.1:0", GracefulShutdownTimeout: new(5 * time.Minute),
	})
	arrived := make(chan struct{})
	err := m.AddHealthzCheck("waits", func(r *http.Request) error {
		close(arrived)
		<-r.Context().Done()
		return r.Context().Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := m.begin(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var answered sync.WaitGroup
	answered.Go(func() {
		if resp, err := client.Get("http://" + m.healthProbeListener.Addr().String() + "/healthz"); err == nil {
			_ = resp.Body.Close()
		}
	})
	<-arrived
	if err := stop(); err != nil {
		t.Error(err)
	}
	answered.Wait()
}

func TestMetricsServer(t *testing.T) {
	m := newManager(t, Options{Metrics: metricsserver.Options{BindAddress: "127.0.0.1:0"}})
	h := http.NotFoundHandler()
	if m.AddMetricsServerExtraHandler("/x", h) != nil || m.AddMetricsServerExtraHandler("/x", h) == nil || m.AddMetricsServerExtraHandler("/metrics", h) == nil {
		t.Error("a path can be taken once, and /metrics not at all")
	}
	if err := m.begin(t)(); err != nil {
		t.Error(err)
	}
	if err := newManager(t, Options{Metrics: noMetrics}).AddMetricsServerExtraHandler("/x", h); err != nil {
		t.Errorf("without a metrics server: %v", err)
	}
}

func TestPortsInUse(t *testing.T) {
	address := taken(t)
	if _, err := New(unusedConfig, Options{Metrics: noMetrics, HealthProbeBindAddress: address}); err == nil ||
		!strings.HasPrefix(err.Error(), "error listening on "+address) {
		t.Errorf("health probes: %v", err)
	}
	other := reservetest.Address(t)
	for range 2 { // the listener of the other server is closed
		if _, err := New(unusedConfig, Options{Metrics: noMetrics, HealthProbeBindAddress: other, PprofBindAddress: address}); err == nil ||
			!strings.HasPrefix(err.Error(), "error listening on "+address) {
			t.Errorf("pprof: %v", err)
		}
	}
	m := newManager(t, Options{Metrics: metricsserver.Options{BindAddress: address}})
	if err := m.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "failed to start metrics server: failed to create listener: listen tcp "+address) {
		t.Errorf("metrics: %v", err)
	}
}

func TestServer(t *testing.T) {
	m := newManager(t, Options{Metrics: noMetrics})
	srv := &Server{Name: "own", Server: &http.Server{Addr: taken(t), Handler: http.NotFoundHandler()}}
	if err := m.Add(srv); err != nil {
		t.Fatal(err)
	}
	var failed *net.OpError
	if err := m.Start(t.Context()); !errors.As(err, &failed) {
		t.Errorf("got %v", err)
	}
}

func TestNewErrors(t *testing.T) {
	if _, err := New(nil, Options{}); err == nil || err.Error() != "must specify Config" {
		t.Errorf("without a configuration: %v", err)
	}
	if _, err := New(unusedConfig, Options{LeaderElection: true, LeaderElectionNamespace: "n"}); err == nil || err.Error() != "LeaderElectionID must be configured" {
		t.Errorf("leader election without an ID: %v", err)
	}
	broken := errors.New("broken")
	filter := func(*rest.Config, *http.Client) (metricsserver.Filter, error) { return nil, broken }
	if _, err := New(unusedConfig, Options{Metrics: metricsserver.Options{FilterProvider: filter}}); !errors.Is(err, broken) {
		t.Errorf("a metrics server whose filter fails: %v", err)
	}
}

func TestGetters(t *testing.T) {
	logger := logr.New(log.NullLogSink{})
	m := newManager(t, Options{Metrics: noMetrics, Logger: logger, Controller: config.Controller{MaxConcurrentReconciles: 3}})
	o := m.GetControllerOptions()
	if m.GetLogger() != logger || o.MaxConcurrentReconciles != 3 || o.Logger != logger {
		t.Errorf("got %v, %+v", m.GetLogger(), o)
	}
	if d := newManager(t, Options{Metrics: noMetrics}); d.GetLogger() != log.Log {
		t.Error("the default logger is not log.Log")
	}
	if m.GetConfig().Host != unusedConfig.Host || m.GetClient() == nil || m.GetCache() == nil || m.GetScheme() == nil || m.GetRESTMapper() == nil {
		t.Error("a getter does not return the part of the cluster")
	}
}

func TestLeaderElectionResourceLockInterface(t *testing.T) {
	shared := &lease{cut: map[string]bool{}}
	m := newManager(t, Options{
		Metrics: noMetrics, LeaderElection: true, LeaderElectionReleaseOnCancel: true,
		LeaderElectionResourceLockInterface: &candidate{lease: shared, id: "me"},
	})
	stop := m.begin(t)
	if got := shared.holder(); got != "me" {
		t.Errorf("the lease is %q's", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := shared.holder(); got != "" {
		t.Errorf("the lease is still %q's", got)
	}
}

func TestManyFailures(t *testing.T) {
	m := newManager(t, Options{Metrics: noMetrics})
	for i := range 10 {
		if err := m.Add(RunnableFunc(func(context.Context) error { return fmt.Errorf("failure %d", i) })); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "failure ") {
		t.Errorf("got %v", err)
	}
}
