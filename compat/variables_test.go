package controllerruntime_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	ownlog "flyball.dev/ctrl/log"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/authentication"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// set sets a variable until the test ends.
func set[T any](t *testing.T, variable *T, value T) {
	before := *variable
	*variable = value
	t.Cleanup(func() { *variable = before })
}

func TestLog(t *testing.T) {
	var lines []string
	set(t, &log.Log, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	ctrl.LoggerFrom(context.Background()).Info("one")
	ownlog.FromContext(context.Background()).Info("two")
	if len(lines) != 2 {
		t.Errorf("%d lines were logged: %v", len(lines), lines)
	}
	if l := log.FromContext(logr.NewContext(t.Context(), logr.Discard())); l.GetSink() != nil {
		t.Error("the logger in the context was not used")
	}
}

func TestLogOfWebhooks(t *testing.T) {
	var lines []string
	set(t, &log.Log, funcr.New(func(prefix, _ string) { lines = append(lines, prefix) }, funcr.Options{}))
	for name, hook := range map[string]http.Handler{
		"admission": &admission.Webhook{}, "authentication": &authentication.Webhook{},
		"conversion-webhook": conversion.NewWebhookHandler(runtime.NewScheme(), conversion.NewRegistry()),
	} {
		lines = nil
		hook.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{")))
		if !slices.Equal(lines, []string{name}) {
			t.Errorf("%s: the lines are of %v", name, lines)
		}
	}
	lines = nil
	webhook.NewServer(webhook.Options{}).Register("/", http.NotFoundHandler())
	if !slices.Equal(lines, []string{"webhook"}) {
		t.Errorf("the server: the lines are of %v", lines)
	}
}

func TestDefaultPort(t *testing.T) {
	set(t, &webhook.DefaultPort, 1234)
	server, ok := webhook.NewServer(webhook.Options{}).(*webhook.DefaultServer)
	if !ok {
		t.Fatal("not a DefaultServer")
	}
	server.Register("/", http.NotFoundHandler()) // sets the defaults
	if server.Options.Port != 1234 {
		t.Errorf("the port is %d, want 1234", server.Options.Port)
	}
}

func TestDefaultBindAddress(t *testing.T) {
	set(t, &metricsserver.DefaultBindAddress, "0")
	server, err := metricsserver.NewServer(metricsserver.Options{}, &rest.Config{}, nil)
	if server != nil || err != nil {
		t.Errorf("the server is %v, %v, want none", server, err)
	}
}

// A metrics server serves the registry that the program has assigned.
func TestRegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "of_the_program", Help: "A gauge."}))
	set[metrics.RegistererGatherer](t, &metrics.Registry, registry)

	var handler http.Handler
	server, err := metricsserver.NewServer(metricsserver.Options{
		BindAddress: "127.0.0.1:0",
		FilterProvider: func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
			return func(_ logr.Logger, h http.Handler) (http.Handler, error) { handler = h; return h, nil }, nil
		},
	}, &rest.Config{}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if body := w.Body.String(); !strings.Contains(body, "of_the_program") || strings.Contains(body, "go_goroutines") {
		t.Errorf("the metrics are not those of the registry: %.200s", body)
	}
}
