package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"flyball.dev/ctrl/reconcile"
)

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		r := start(t, TypedOptions[string]{TracerProvider: provider}, func(ctx context.Context, req string) (reconcile.Result, error) {
			if !trace.SpanFromContext(ctx).IsRecording() {
				t.Error("the reconciler is not within a span")
			}
			if reconcile.CausesFrom(ctx).Total != 1 {
				t.Error("the causes are lost on the way")
			}
			if req == "bad" {
				return reconcile.Result{}, reconcile.TerminalError(errors.New("broken"))
			}
			return reconcile.Result{}, nil
		})
		for _, req := range []string{"good", "bad"} {
			r.addWithCause(reconcile.Cause{Kind: reconcile.CauseGeneric}, req)
			<-r.requests
		}
		synctest.Wait()
		_ = r.end()
		spans := recorder.Ended()
		if len(spans) != 2 {
			t.Fatalf("%d spans", len(spans))
		}
		for i, want := range []codes.Code{codes.Unset, codes.Error} {
			s := spans[i]
			if s.Status().Code != want || s.Parent().IsValid() || s.Name() != "reconcile "+r.name {
				t.Errorf("the span %s ended %v", s.Name(), s.Status())
			}
			var got []string
			for _, a := range s.Attributes() {
				got = append(got, fmt.Sprint(a.Key, "=", a.Value.String()))
			}
			for _, want := range []string{"flyball.causes=[\"generic\"]", "flyball.request=" + []string{"good", "bad"}[i]} {
				if !slices.Contains(got, want) {
					t.Errorf("no %s in %s", want, got)
				}
			}
		}
	})
}

func TestNoTracerNoSpan(t *testing.T) {
	for _, p := range []trace.TracerProvider{nil, noop.NewTracerProvider()} {
		if tracerOf(p) != nil {
			t.Errorf("spans of %T would go nowhere", p)
		}
	}
}
