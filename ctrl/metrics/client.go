package metrics

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// RESTClientMetric is an optional metric of client-go's REST client.
type RESTClientMetric int

const (
	// MetricRequestLatency is rest_client_request_duration_seconds.
	MetricRequestLatency = iota + 1
	// MetricDNSResolutionLatency is rest_client_dns_resolution_duration_seconds.
	MetricDNSResolutionLatency
	// MetricRequestSize is rest_client_request_size_bytes.
	MetricRequestSize
	// MetricResponseSize is rest_client_response_size_bytes.
	MetricResponseSize
	// MetricRateLimiterLatency is rest_client_rate_limiter_duration_seconds.
	MetricRateLimiterLatency
	// MetricRequestRetry is rest_client_request_retries_total.
	MetricRequestRetry
)

// RESTClientMetricsOptions are the options of the metrics that are registered with them.
type RESTClientMetricsOptions struct {
	// DurationBuckets are the upper bounds, in seconds, of the buckets of latencies. By default they
	// are the buckets of the Kubernetes components, from 5 ms to 60 s. A metric that is registered already
	// keeps its buckets.
	DurationBuckets []float64
}

// RegisterRESTClientMetrics enables metrics, for all clients of the process. They cannot be
// disabled.
func RegisterRESTClientMetrics(metrics ...RESTClientMetric) {
	RegisterRESTClientMetricsWithOptions(RESTClientMetricsOptions{}, metrics...)
}

// RegisterRESTClientMetricsWithOptions is RegisterRESTClientMetrics with options.
func RegisterRESTClientMetricsWithOptions(opts RESTClientMetricsOptions, metrics ...RESTClientMetric) {
	seconds := opts.DurationBuckets
	if len(seconds) == 0 {
		seconds = []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}
	}
	bytes := []float64{64, 256, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
	for _, m := range metrics {
		switch m {
		case MetricRequestLatency:
			requestLatency.enable("rest_client_request_duration_seconds",
				"Latency of HTTP requests in seconds, by verb and host.", seconds, "verb", "host")
		case MetricDNSResolutionLatency:
			resolverLatency.enable("rest_client_dns_resolution_duration_seconds",
				"Latency of DNS resolution in seconds, by host.", seconds, "host")
		case MetricRequestSize:
			requestSize.enable("rest_client_request_size_bytes",
				"Size of the bodies of HTTP requests in bytes, by verb and host.", bytes, "verb", "host")
		case MetricResponseSize:
			responseSize.enable("rest_client_response_size_bytes",
				"Size of the bodies of HTTP responses in bytes, by verb and host.", bytes, "verb", "host")
		case MetricRateLimiterLatency:
			rateLimiterLatency.enable("rest_client_rate_limiter_duration_seconds",
				"Delay by the client-side rate limiter in seconds, by verb and host.", seconds, "verb", "host")
		case MetricRequestRetry:
			requestRetries.enable()
		}
	}
}

var (
	requestResults = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rest_client_requests_total",
		Help: "Total number of HTTP requests, by status code, method and host.",
	}, []string{"code", "method", "host"})

	requestLatency, rateLimiterLatency, resolverLatency, requestSize, responseSize histogram
	requestRetries                                                                 retryCounter
)

func init() {
	Registry.MustRegister(requestResults)
	clientmetrics.Register(clientmetrics.RegisterOpts{
		RequestResult:      resultAdapter{},
		RequestLatency:     latencyAdapter{&requestLatency},
		RateLimiterLatency: latencyAdapter{&rateLimiterLatency},
		ResolverLatency:    resolverAdapter{&resolverLatency},
		RequestSize:        sizeAdapter{&requestSize},
		ResponseSize:       sizeAdapter{&responseSize},
		RequestRetry:       &requestRetries,
	})
}

// histogram is a histogram that drops observations until it is enabled.
type histogram struct {
	once sync.Once
	vec  atomic.Pointer[prometheus.HistogramVec]
}

func (h *histogram) enable(name, help string, buckets []float64, labels ...string) {
	h.once.Do(func() {
		vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, labels)
		Registry.MustRegister(vec)
		h.vec.Store(vec)
	})
}

func (h *histogram) observe(value float64, labels ...string) {
	if vec := h.vec.Load(); vec != nil {
		vec.WithLabelValues(labels...).Observe(value)
	}
}

// The adapters implement the interfaces of client-go's tools/metrics.
type (
	resultAdapter   struct{}
	latencyAdapter  struct{ *histogram }
	resolverAdapter struct{ *histogram }
	sizeAdapter     struct{ *histogram }
)

func (resultAdapter) Increment(_ context.Context, code, method, host string) {
	requestResults.WithLabelValues(code, method, host).Inc()
}

func (a latencyAdapter) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	a.observe(latency.Seconds(), verb, u.Host)
}

func (a resolverAdapter) Observe(_ context.Context, host string, latency time.Duration) {
	a.observe(latency.Seconds(), host)
}

func (a sizeAdapter) Observe(_ context.Context, verb, host string, size float64) {
	a.observe(size, verb, host)
}

// retryCounter is a counter that drops increments until it is enabled.
type retryCounter struct {
	once sync.Once
	vec  atomic.Pointer[prometheus.CounterVec]
}

func (c *retryCounter) enable() {
	c.once.Do(func() {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_request_retries_total",
			Help: "Total number of retries of HTTP requests, by status code, verb and host.",
		}, []string{"code", "verb", "host"})
		Registry.MustRegister(vec)
		c.vec.Store(vec)
	})
}

func (c *retryCounter) IncrementRetry(_ context.Context, code, verb, host string) {
	if vec := c.vec.Load(); vec != nil {
		vec.WithLabelValues(code, verb, host).Inc()
	}
}
