// Package metrics counts and times the requests to webhooks.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"flyball.dev/ctrl/metrics"
)

var (
	// RequestLatency is the time it takes to answer a request, by path.
	RequestLatency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:                            "controller_runtime_webhook_latency_seconds",
		Help:                            "Histogram of the latency of processing admission requests",
		Buckets:                         prometheus.ExponentialBuckets(10e-9, 10, 12),
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"webhook"})

	// RequestTotal is the number of requests, by path and HTTP status code.
	RequestTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "controller_runtime_webhook_requests_total",
		Help: "Total number of admission requests by HTTP status code.",
	}, []string{"webhook", "code"})

	// RequestInFlight is the number of requests that are being served, by path.
	RequestInFlight = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "controller_runtime_webhook_requests_in_flight",
		Help: "Current number of admission requests being served.",
	}, []string{"webhook"})
)

func init() {
	metrics.Registry.MustRegister(RequestLatency, RequestTotal, RequestInFlight)
}

// InstrumentedHook returns a handler that serves as hook does and measures it under path.
func InstrumentedHook(path string, hook http.Handler) http.Handler {
	label := prometheus.Labels{"webhook": path}
	total := RequestTotal.MustCurryWith(label)
	for _, code := range []string{"200", "500"} { // so that rates are known from the first request
		total.WithLabelValues(code)
	}
	hook = promhttp.InstrumentHandlerInFlight(RequestInFlight.With(label), hook)
	hook = promhttp.InstrumentHandlerCounter(total, hook)
	return promhttp.InstrumentHandlerDuration(RequestLatency.MustCurryWith(label), hook)
}
