package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"flyball.dev/ctrl/internal/fakeapi"
)

// traced sends a request within a span and returns the request that the server received
// and the spans that have ended, the outer one last.
func traced(t *testing.T, sampler sdktrace.Sampler, method, url string, response *http.Response, fails error) (*http.Request, []sdktrace.ReadOnlySpan) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sampler))
	ctx, outer := provider.Tracer("test").Start(t.Context(), "outer")
	req := httptest.NewRequestWithContext(ctx, method, url, strings.NewReader("password"))
	req.Header.Set("Authorization", "Bearer secret")
	var seen *http.Request
	resp, err := withSpans(fakeapi.Func(func(r *http.Request) (*http.Response, error) {
		seen = r
		return response, fails
	})).RoundTrip(req)
	if err != fails {
		t.Fatal(err)
	}
	if resp != nil && resp.Body != nil {
		if len(recorder.Ended()) > 0 && response.StatusCode != http.StatusSwitchingProtocols {
			t.Error("the span has ended before the response was read")
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if req.Header.Get("traceparent") != "" {
		t.Error("the caller's request was changed")
	}
	outer.End()
	return seen, recorder.Ended()
}

func responseWith(code int) *http.Response {
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("response"))}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		method, path string
		response     *http.Response
		fails        error
		name, status string
		attributes   string
	}{
		{
			method: "PUT", path: "/apis/apps/v1/namespaces/a/deployments/x/status?fieldManager=secret", response: responseWith(200),
			name:       "PUT deployments/status",
			attributes: "flyball.resource=deployments.apps flyball.subresource=status http.request.method=PUT http.response.status_code=200 k8s.namespace.name=a k8s.object.name=x server.address=server",
		},
		{
			method: "GET", path: "/api/v1/pods?labelSelector=secret", response: responseWith(200),
			name:       "GET pods",
			attributes: "flyball.resource=pods http.request.method=GET http.response.status_code=200 server.address=server",
		},
		{
			method: "GET", path: "/api/v1/namespaces/a", response: responseWith(404),
			name:       "GET namespaces",
			attributes: "flyball.resource=namespaces http.request.method=GET http.response.status_code=404 k8s.object.name=a server.address=server",
		},
		{
			method: "PUT", path: "/api/v1/namespaces/a/finalize", response: responseWith(409),
			name:       "PUT namespaces/finalize",
			attributes: "flyball.resource=namespaces flyball.subresource=finalize http.request.method=PUT http.response.status_code=409 k8s.object.name=a server.address=server",
		},
		{
			method: "POST", path: "/api/v1/namespaces/a/secrets", response: responseWith(403),
			name: "POST secrets", status: "Error Forbidden",
			attributes: "flyball.resource=secrets http.request.method=POST http.response.status_code=403 k8s.namespace.name=a server.address=server",
		},
		{
			method: "GET", path: "/apis/apps/v1", fails: errors.New("no route to host"),
			name: "GET", status: "Error no route to host",
			attributes: "http.request.method=GET server.address=server url.path=/apis/apps/v1",
		},
		{
			method: "POST", path: "/api/v1/namespaces/a/pods/x/exec", response: responseWith(101),
			name:       "POST pods/exec",
			attributes: "flyball.resource=pods flyball.subresource=exec http.request.method=POST http.response.status_code=101 k8s.namespace.name=a k8s.object.name=x server.address=server",
		},
		{
			method: "GET", path: "/api/v1/pods", response: &http.Response{StatusCode: 204},
			name:       "GET pods",
			attributes: "flyball.resource=pods http.request.method=GET http.response.status_code=204 server.address=server",
		},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			seen, spans := traced(t, sdktrace.AlwaysSample(), c.method, "http://server"+c.path, c.response, c.fails)
			if len(spans) != 2 {
				t.Fatalf("%d spans", len(spans))
			}
			span, outer := spans[0], spans[1]
			if span.Name() != c.name || span.SpanKind() != trace.SpanKindClient || span.Parent().SpanID() != outer.SpanContext().SpanID() {
				t.Errorf("span %q, %v, below %v", span.Name(), span.SpanKind(), span.Parent().SpanID())
			}
			var status string
			if span.Status().Code != codes.Unset {
				status = span.Status().Code.String() + " " + span.Status().Description
			}
			if status != c.status {
				t.Errorf("status %q, want %q", status, c.status)
			}
			set := attribute.NewSet(span.Attributes()...)
			if got := strings.ReplaceAll(set.Encoded(attribute.DefaultEncoder()), ",", " "); got != c.attributes {
				t.Errorf("attributes %s\nwant       %s", got, c.attributes)
			}
			if want := fmt.Sprintf("00-%s-%s-01", span.SpanContext().TraceID(), span.SpanContext().SpanID()); seen.Header.Get("traceparent") != want {
				t.Errorf("the server got traceparent %q, want %q", seen.Header.Get("traceparent"), want)
			}
			if trace.SpanContextFromContext(seen.Context()).SpanID() != span.SpanContext().SpanID() {
				t.Error("the request is not within its span")
			}
		})
	}
}

// TestNotSampled checks that a trace that is not recorded is propagated.
func TestNotSampled(t *testing.T) {
	seen, spans := traced(t, sdktrace.NeverSample(), "GET", "http://server/api/v1/pods", responseWith(200), nil)
	if len(spans) != 0 || !strings.HasSuffix(seen.Header.Get("traceparent"), "-00") {
		t.Errorf("%d spans, traceparent %q", len(spans), seen.Header.Get("traceparent"))
	}
}

// TestNoSpan checks that a request without a span is passed on unchanged, without allocations.
func TestNoSpan(t *testing.T) {
	type some struct{ int }
	ctx := context.Background()
	for i := range 10 {
		ctx = context.WithValue(ctx, some{i}, i)
	}
	req := httptest.NewRequestWithContext(ctx, "GET", "http://server/api/v1/pods", nil)
	response := responseWith(200)
	rt := withSpans(fakeapi.Func(func(r *http.Request) (*http.Response, error) {
		if r != req {
			t.Error("the request was changed")
		}
		return response, nil
	}))
	body := response.Body
	if allocs := testing.AllocsPerRun(100, func() {
		if resp, err := rt.RoundTrip(req); resp != response || resp.Body != body || err != nil {
			t.Error("the response was changed")
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkNoSpan(b *testing.B) {
	req := httptest.NewRequestWithContext(b.Context(), "GET", "http://server/api/v1/pods", nil)
	response := responseWith(200)
	rt := withSpans(fakeapi.Func(func(*http.Request) (*http.Response, error) { return response, nil }))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rt.RoundTrip(req); err != nil {
			b.Fatal(err)
		}
	}
}
