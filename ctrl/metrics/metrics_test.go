package metrics

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

func TestRESTClientMetrics(t *testing.T) {
	t.Cleanup(disableRESTClientMetrics) // for a run after this one
	ctx := t.Context()
	clientmetrics.RequestResult.Increment(ctx, "200", "GET", "there")
	if err := testutil.GatherAndCompare(Registry, strings.NewReader(`
# HELP rest_client_requests_total Total number of HTTP requests, by status code, method and host.
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="there",method="GET"} 1
`), "rest_client_requests_total"); err != nil {
		t.Error(err)
	}

	use := func() {
		clientmetrics.RequestLatency.Observe(ctx, "GET", url.URL{Host: "there"}, time.Second)
		clientmetrics.RateLimiterLatency.Observe(ctx, "GET", url.URL{Host: "there"}, time.Second)
		clientmetrics.ResolverLatency.Observe(ctx, "there", time.Second)
		clientmetrics.RequestSize.Observe(ctx, "GET", "there", 100)
		clientmetrics.ResponseSize.Observe(ctx, "GET", "there", 100)
		clientmetrics.RequestRetry.IncrementRetry(ctx, "429", "GET", "there")
	}
	names := []string{
		"rest_client_request_duration_seconds", "rest_client_rate_limiter_duration_seconds",
		"rest_client_dns_resolution_duration_seconds", "rest_client_request_size_bytes",
		"rest_client_response_size_bytes", "rest_client_request_retries_total",
	}
	use()
	if n, err := testutil.GatherAndCount(Registry, names...); n != 0 || err != nil {
		t.Errorf("%d series before anything is turned on (%v)", n, err)
	}
	RegisterRESTClientMetricsWithOptions(RESTClientMetricsOptions{DurationBuckets: []float64{2}}, MetricRequestLatency)
	RegisterRESTClientMetrics(MetricRequestLatency, MetricDNSResolutionLatency, MetricRequestSize,
		MetricResponseSize, MetricRateLimiterLatency, MetricRequestRetry, -1)
	use()
	for _, name := range names {
		if n, err := testutil.GatherAndCount(Registry, name); n != 1 || err != nil {
			t.Errorf("%d series of %s, want 1 (%v)", n, name, err)
		}
	}
}

func disableRESTClientMetrics() {
	requestResults.Reset()
	for _, h := range []*histogram{&requestLatency, &rateLimiterLatency, &resolverLatency, &requestSize, &responseSize} {
		Registry.Unregister(h.vec.Load())
		*h = histogram{}
	}
	Registry.Unregister(requestRetries.vec.Load())
	requestRetries = retryCounter{}
}
