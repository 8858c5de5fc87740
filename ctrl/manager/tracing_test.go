package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/internal/fakeapi"
	"flyball.dev/ctrl/internal/testserver"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
)

// TestTrace follows a reconcile to the requests that it makes: reads from the
// server and writes are spans below its own, and the server receives the trace context.
func TestTrace(t *testing.T) {
	testserver.Test(t, func(t *testing.T) {
		received := &parents{}
		cfg := testserver.Start(t)
		cfg.Wrap(received.record)
		recorder := tracetest.NewSpanRecorder()
		mgr, err := manager.New(cfg, manager.Options{
			Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}}},
			Metrics:    metricsserver.Options{BindAddress: "0"},
			Controller: config.Controller{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))},
		})
		if err != nil {
			t.Fatal(err)
		}
		reconciler := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			c := mgr.GetClient()
			var cm corev1.ConfigMap
			if err := c.Get(ctx, req.NamespacedName, &cm); err != nil { // from the cache: no request
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if err := mgr.GetAPIReader().List(ctx, &corev1.SecretList{}, client.InNamespace(req.Namespace)); err != nil {
				return reconcile.Result{}, err
			}
			return reconcile.Result{}, c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}})
		})
		if err := builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Named("traced").Complete(reconciler); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- mgr.Start(ctx) }()
		testserver.Wait()
		if err := mgr.GetClient().Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}); err != nil {
			t.Fatal(err)
		}
		testserver.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		received.compare(t, recorder.Ended())
	})
}

// parents are the values of traceparent that a server received.
type parents struct {
	mu     sync.Mutex
	values []string
}

func (p *parents) record(next http.RoundTripper) http.RoundTripper {
	return fakeapi.Func(func(r *http.Request) (*http.Response, error) {
		if value := r.Header.Get("traceparent"); value != "" {
			p.mu.Lock()
			p.values = append(p.values, value)
			p.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

func (p *parents) compare(t *testing.T, spans []sdktrace.ReadOnlySpan) {
	t.Helper()
	var reconcile sdktrace.ReadOnlySpan
	var requests []sdktrace.ReadOnlySpan
	for _, s := range spans {
		switch {
		case s.Name() == "reconcile traced":
			reconcile = s
		case s.SpanKind() == trace.SpanKindClient:
			requests = append(requests, s)
		}
	}
	if reconcile == nil || len(requests) != 2 {
		t.Fatalf("%d requests below %v", len(requests), reconcile)
	}
	for i, want := range []string{"GET secrets 200", "POST secrets 201"} {
		s := requests[i]
		set := attribute.NewSet(s.Attributes()...)
		code, _ := set.Value("http.response.status_code")
		if got := fmt.Sprint(s.Name(), " ", code.AsInt64()); got != want {
			t.Errorf("request %q, want %q", got, want)
		}
		if s.Parent().SpanID() != reconcile.SpanContext().SpanID() {
			t.Errorf("%s is not below the reconcile", s.Name())
		}
		want := fmt.Sprintf("00-%s-%s-01", reconcile.SpanContext().TraceID(), s.SpanContext().SpanID())
		if !slices.Contains(p.values, want) {
			t.Errorf("the server did not receive the traceparent of %s, but %q", s.Name(), p.values)
		}
	}
	if len(p.values) != 2 {
		t.Errorf("the server received %q", p.values)
	}
}
