package admission

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/metrics"
	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"flyball.dev/apiserver/admission/upstream"
)

// measured is the chain of a resource, with upstream's metrics of the steps of admission.
//
//upstream:k8s.io/apiserver/pkg/admission/metrics.WithStepMetrics
type measured struct{ reinvoking }

// Admit implements [admission.MutationInterface].
func (m measured) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	start := time.Now()
	err := m.reinvoking.Admit(ctx, a, o)
	observeStep(ctx, time.Since(start), err != nil, a, admitStep)
	return err
}

// Validate implements [admission.ValidationInterface].
func (m measured) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	start := time.Now()
	err := m.reinvoking.Validate(ctx, a, o)
	observeStep(ctx, time.Since(start), err != nil, a, validateStep)
	return err
}

// The steps of admission, as indexes of steps.
const (
	admitStep = iota
	validateStep
)

// The values of the labels of steps.
var (
	steps      = [...]string{admitStep: upstream.StepAdmit, validateStep: upstream.StepValidate}
	operations = [...]admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}
	rejections = [...]string{"false", "true"}
)

// stepObservers are the metrics of the steps of admission, by step, operation and rejection. Upstream looks up the metrics by
// their labels for each observation, which takes longer than the plugins of most requests.
type stepObservers struct {
	durations *basemetrics.HistogramVec
	//lint:ignore SA1019 upstream's metric is one
	summaries *basemetrics.SummaryVec
	by        [len(steps)][len(operations)][len(rejections)]atomic.Pointer[[2]prometheus.Observer]
}

// observeStep records the duration of a step, which is an index of steps.
//
//upstream:k8s.io/apiserver/pkg/admission/metrics.AdmissionMetrics.ObserveAdmissionStep
func observeStep(ctx context.Context, elapsed time.Duration, rejected bool, a admission.Attributes, step int) {
	observers, operation := upstreamSteps(), slices.Index(operations[:], a.GetOperation())
	if observers == nil || operation < 0 || trace.SpanContextFromContext(ctx).IsSampled() { // which has an exemplar
		metrics.Metrics.ObserveAdmissionStep(ctx, elapsed, rejected, a, steps[step])
		return
	}
	refused := 0
	if rejected {
		refused = 1
	}
	known := &observers.by[step][operation][refused]
	both := known.Load()
	if both == nil {
		labels := []string{steps[step], string(operations[operation]), rejections[refused]}
		both = &[2]prometheus.Observer{observers.durations.WithLabelValues(labels...), observers.summaries.WithLabelValues(labels...)}
		known.Store(both)
	}
	seconds := elapsed.Seconds()
	both[0].Observe(seconds)
	both[1].Observe(seconds)
}

// upstreamSteps returns upstream's metrics, or nil if they have other names, labels or texts than expected.
var upstreamSteps = sync.OnceValue(func() *stepObservers {
	const help = "broken out for each operation and API resource and step type (validate or admit)."
	labels := []string{"type", "operation", "rejected"}
	durations, ok := registered(basemetrics.NewHistogramVec(&basemetrics.HistogramOpts{
		Namespace: "apiserver", Subsystem: "admission", Name: "step_admission_duration_seconds",
		Help: "Admission sub-step latency histogram in seconds, " + help, StabilityLevel: basemetrics.STABLE,
	}, labels))
	//lint:ignore SA1019 upstream's metric is one
	summaries, found := registered(basemetrics.NewSummaryVec(&basemetrics.SummaryOpts{
		Namespace: "apiserver", Subsystem: "admission", Name: "step_admission_duration_seconds_summary",
		Help: "Admission sub-step latency summary in seconds, " + help, StabilityLevel: basemetrics.ALPHA,
	}, labels))
	if !ok || !found {
		return nil
	}
	observers := &stepObservers{durations: durations, summaries: summaries}
	legacyregistry.RawMustRegister(observers)
	return observers
})

// registered returns the registered metric that has the name, the labels and the text of another one. The registry tells it
// as an error.
func registered[M basemetrics.Registerable](like M) (found M, ok bool) {
	like.Create(nil)
	err := legacyregistry.Registerer().Register(like)
	if err == nil {
		legacyregistry.Registerer().Unregister(like)
		return found, false
	}
	if exists, already := err.(prometheus.AlreadyRegisteredError); already {
		found, ok = exists.ExistingCollector.(M)
	}
	return found, ok
}

// Describe implements [prometheus.Collector]. The metrics are in the registry already.
func (*stepObservers) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (*stepObservers) Collect(chan<- prometheus.Metric) {}

// Reset forgets the metrics of all labels, because the registry has dropped them.
func (s *stepObservers) Reset() {
	for i := range s.by {
		for j := range s.by[i] {
			for k := range s.by[i][j] {
				s.by[i][j][k].Store(nil)
			}
		}
	}
}
