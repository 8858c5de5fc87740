// Package metrics has the metrics of admission webhooks.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"flyball.dev/ctrl/metrics"
)

// WebhookPanics counts the panics of admission webhooks, recovered or not.
var WebhookPanics = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "controller_runtime_webhook_panics_total",
	Help: "Total number of webhook panics",
}, []string{})

func init() {
	metrics.Registry.MustRegister(WebhookPanics)
	WebhookPanics.WithLabelValues() // so that it is zero before the first panic
}
