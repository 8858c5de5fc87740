package upstream

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/metrics"
)

// The steps of admission in the metrics.
const (
	StepAdmit    = "admit"
	StepValidate = "validate"
)

// Measure calls a plugin and records the duration of the call. A plugin measures only the calls that may take long. The
// metrics do not have the calls in which a plugin has nothing to do, because the measurement would cost more than the call.
//
//upstream:k8s.io/apiserver/pkg/admission/metrics.pluginHandlerWithMetrics
func Measure(ctx context.Context, a admission.Attributes, step, plugin string, call func() error) error {
	start := time.Now()
	err := call()
	metrics.Metrics.ObserveAdmissionController(ctx, time.Since(start), err != nil, a, step, plugin)
	return err
}
