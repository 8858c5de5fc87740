// Package metrics has the metrics of conversion webhooks.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"flyball.dev/ctrl/metrics"
)

// WebhookPanics counts the panics of conversions. All of them are recovered.
var WebhookPanics = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "controller_runtime_conversion_webhook_panics_total",
	Help: "Total number of conversion webhook panics",
}, []string{})

func init() {
	metrics.Registry.MustRegister(WebhookPanics)
	WebhookPanics.WithLabelValues() // so that it is zero before the first panic
}
