package controller

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"flyball.dev/ctrl/reconcile"
)

// tracerOf returns a tracer of p, or of the registered provider if p is nil. It returns nil if that
// drops all spans.
func tracerOf(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		p = otel.GetTracerProvider()
		// The delegating provider that is the default drops all spans until one is registered.
		t := reflect.TypeOf(p)
		if t.Kind() == reflect.Pointer && strings.HasSuffix(t.Elem().PkgPath(), "otel/internal/global") {
			return nil
		}
	}
	if _, drops := p.(noop.TracerProvider); drops {
		return nil
	}
	return p.Tracer("flyball.dev/ctrl/controller")
}

// startSpan begins the span of a reconcile. It is the root of a new trace, since a reconcile may
// have many causes. The span is nil if tracing is disabled.
func (p *workerPool[request]) startSpan(c *reconcileContext[request], priority int) (context.Context, trace.Span) {
	if p.tracer == nil {
		return c, nil
	}
	attributes := []attribute.KeyValue{
		attribute.String("flyball.controller", p.name),
		attribute.String("flyball.reconcile_id", string(ReconcileIDFromContext(c))),
		attribute.Int("flyball.priority", priority),
		attribute.Float64("flyball.queue.seconds", c.causes.Waited.Seconds()),
		attribute.Int("flyball.causes.total", c.causes.Total),
		attribute.StringSlice("flyball.causes", causeTexts(c.causes)),
	}
	if req, ok := any(c.req).(reconcile.Request); ok {
		attributes = append(attributes,
			attribute.String("k8s.namespace.name", req.Namespace),
			attribute.String("k8s.object.name", req.Name))
	} else {
		attributes = append(attributes, attribute.String("flyball.request", fmt.Sprint(c.req)))
	}
	return p.tracer.Start(c, "reconcile "+p.name, trace.WithNewRoot(),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...))
}

func causeTexts(causes reconcile.Causes) []string {
	texts := make([]string, len(causes.List))
	for i, c := range causes.List {
		texts[i] = c.String()
	}
	return texts
}

// endSpan ends the span of a reconcile and records the outcome in it.
func (o outcome) endSpan(span trace.Span, err error) {
	span.SetAttributes(
		attribute.String("flyball.result", o.result),
		attribute.Bool("flyball.conflict", o.conflict))
	if o.after > 0 {
		span.SetAttributes(attribute.String("flyball.requeue_after", o.after.Round(time.Millisecond).String()))
	}
	if o.failed {
		span.RecordError(err)
		span.SetStatus(codes.Error, "reconcile failed")
	}
	span.End()
}
