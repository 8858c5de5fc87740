package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// stepMetrics returns the metrics of steps as text, with the numbers of observations and their sums.
func stepMetrics(t *testing.T) []string {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		if !strings.Contains(f.GetName(), "step_admission") {
			continue
		}
		for _, m := range f.GetMetric() {
			exemplars := 0
			for _, bucket := range m.GetHistogram().GetBucket() {
				if bucket.GetExemplar() != nil {
					exemplars++
				}
			}
			lines = append(lines, fmt.Sprintf("%s %s %v %v %.6f %.6f %d exemplars", f.GetName(), f.GetHelp(), m.GetLabel(),
				m.GetHistogram().GetSampleCount()+m.GetSummary().GetSampleCount(),
				m.GetHistogram().GetSampleSum(), m.GetSummary().GetSampleSum(), exemplars))
		}
	}
	return lines
}

// TestStepMetrics: the metrics are the same as with upstream's function, also after a reset.
func TestStepMetrics(t *testing.T) {
	if upstreamSteps() == nil {
		t.Fatal("upstream's metrics have other names, labels or texts")
	}
	span := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled}))
	type observe func(context.Context, time.Duration, bool, admission.Attributes, int)
	upstream := func(ctx context.Context, elapsed time.Duration, rejected bool, a admission.Attributes, step int) {
		metrics.Metrics.ObserveAdmissionStep(ctx, elapsed, rejected, a, steps[step])
	}
	measure := func(o observe) []string {
		legacyregistry.Reset()
		if left := stepMetrics(t); len(left) > 0 {
			t.Fatalf("after a reset: %q", left)
		}
		n := 0
		for _, operation := range append(operations[:], "OTHER") {
			for step := range steps {
				for _, rejected := range []bool{false, true} {
					a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", operation, nil, false, nil)
					for range 3 {
						n++
						ctx := t.Context()
						if n%5 == 0 {
							ctx = span
						}
						o(ctx, time.Duration(n)*time.Millisecond, rejected, a, step)
					}
				}
			}
		}
		return stepMetrics(t)
	}
	want := measure(upstream)
	if len(want) != 2*5*2*2 {
		t.Fatalf("%d metrics", len(want))
	}
	for range 2 {
		if got := measure(observeStep); !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestMeasured: both steps of a chain are in the metrics, with their errors.
func TestMeasured(t *testing.T) {
	legacyregistry.Reset()
	var calls []string
	r := recorded{admission.NewHandler(admission.Create), "one", true, &calls}
	m := measured{reinvoking{newChain([]admission.Interface{bothPlugin{mutatingPlugin{r}, validatingPlugin{r}}})}}
	a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", admission.Create, nil, false, nil)
	if err := errors.Join(m.Admit(t.Context(), a, nil), m.Validate(t.Context(), a, nil)); err == nil || err.Error() != "one\none" {
		t.Error(err)
	}
	lines := strings.Join(stepMetrics(t), "\n")
	if got := strings.Count(lines, `"true"`); got != 4 || strings.Contains(lines, `"false"`) {
		t.Errorf("%d metrics of rejections\n%s", got, lines)
	}
}
