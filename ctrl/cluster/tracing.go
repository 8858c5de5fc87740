package cluster

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// tracer starts a child span for every request with a span in its context, such as a request of a
// reconcile, and propagates it to the server. It passes other requests on unchanged.
type tracer struct{ next http.RoundTripper }

func withSpans(next http.RoundTripper) http.RoundTripper { return tracer{next} }

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (t tracer) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t tracer) RoundTrip(r *http.Request) (*http.Response, error) {
	parent := trace.SpanFromContext(r.Context())
	if !parent.SpanContext().IsValid() {
		return t.next.RoundTrip(r)
	}
	ctx, span := start(parent, r)
	r = r.Clone(ctx)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := t.next.RoundTrip(r)
	switch {
	case !span.IsRecording():
	case err != nil:
		span.SetStatus(codes.Error, err.Error())
		span.End()
	default:
		endWithBody(span, resp)
	}
	return resp, err
}

// start starts the span of a request if its parent is recorded, and otherwise returns the parent.
func start(parent trace.Span, r *http.Request) (context.Context, trace.Span) {
	if !parent.IsRecording() {
		return r.Context(), parent
	}
	what, attributes := describe(r.URL.Path)
	attributes = append(attributes,
		attribute.String("http.request.method", r.Method),
		attribute.String("server.address", r.URL.Host))
	tracer := parent.TracerProvider().Tracer("flyball.dev/ctrl/cluster")
	return tracer.Start(r.Context(), strings.TrimSpace(r.Method+" "+what),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// describe parses a path and returns its resource and the attributes of the span.
func describe(path string) (resource string, attributes []attribute.KeyValue) {
	steps := strings.Split(strings.Trim(path, "/"), "/")
	group, namespace := "", ""
	switch {
	case len(steps) > 2 && steps[0] == "api":
		steps = steps[2:]
	case len(steps) > 3 && steps[0] == "apis":
		group, steps = "."+steps[1], steps[3:]
	default:
		return "", []attribute.KeyValue{attribute.String("url.path", path)}
	}
	if len(steps) > 2 && steps[0] == "namespaces" && steps[2] != "status" && steps[2] != "finalize" {
		namespace, steps = steps[1], steps[2:]
		attributes = append(attributes, attribute.String("k8s.namespace.name", namespace))
	}
	resource = steps[0]
	attributes = append(attributes, attribute.String("flyball.resource", resource+group))
	if len(steps) > 1 {
		attributes = append(attributes, attribute.String("k8s.object.name", steps[1]))
	}
	if len(steps) > 2 {
		resource += "/" + steps[2]
		attributes = append(attributes, attribute.String("flyball.subresource", steps[2]))
	}
	return resource, attributes
}

// endWithBody ends the span when the body of the response has been read. Not found and conflict are
// not recorded as errors, as reconcilers expect them.
func endWithBody(span trace.Span, resp *http.Response) {
	code := resp.StatusCode
	span.SetAttributes(attribute.Int("http.response.status_code", code))
	if code >= 400 && code != http.StatusNotFound && code != http.StatusConflict {
		span.SetStatus(codes.Error, http.StatusText(code))
	}
	if code == http.StatusSwitchingProtocols || resp.Body == nil {
		span.End()
		return
	}
	resp.Body = &tracedBody{resp.Body, sync.OnceFunc(func() { span.End() })}
}

// tracedBody is a body that ends a span at its end.
type tracedBody struct {
	io.ReadCloser
	end func()
}

func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *tracedBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
