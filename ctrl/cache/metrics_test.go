package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/cache/internal/reflector"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/metrics"
)

// series returns the series of a metric of this package: labels and value.
func series(t *testing.T, name string) []string {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		if family.GetName() != "flyball_cache_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() == "kind" || l.GetName() == "form" || l.GetName() == "reason" {
					labels = append(labels, l.GetValue())
				}
			}
			all = append(all, fmt.Sprintf("%s %.0f", strings.Join(labels, " "), m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return all
}

// expectSeries compares the series of a metric.
func expectSeries(t *testing.T, name string, want ...string) {
	t.Helper()
	expect(t, strings.Join(series(t, name), ", "), strings.Join(want, ", "))
}

// The metrics follow the informers of a running cache.
func TestMetrics(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{DefaultNamespaces: map[string]Config{"a": {}, "b": {}}})
		startCache(t, c)
		begin := time.Now().Unix()
		get := func(obj client.Object) {
			t.Helper()
			if err := c.Get(t.Context(), key("a", "cm-0"), obj); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
		get(&corev1.ConfigMap{})
		get(&corev1.Node{})
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		get(meta)
		expectSeries(t, "objects", "metadata ConfigMap 8", "typed ConfigMap 8", "typed Node 1")
		expectSeries(t, "synced", "metadata ConfigMap 1", "typed ConfigMap 1", "typed Node 1")
		expectSeries(t, "watches", "metadata ConfigMap 2", "typed ConfigMap 2", "typed Node 1")
		expectSeries(t, "events_total", "metadata ConfigMap 0", "typed ConfigMap 0", "typed Node 0")
		expectSeries(t, "errors_total")
		for _, line := range series(t, "bytes") {
			if strings.HasSuffix(line, " 0") {
				t.Errorf("bytes: %s", line)
			}
		}

		time.Sleep(time.Minute)
		s.put(configMap("a", "new"))
		s.Delete("configmaps", "b", "cm-0")
		s.put(configMap("elsewhere", "new"))
		synctest.Wait()
		expectSeries(t, "events_total", "metadata ConfigMap 2", "typed ConfigMap 2", "typed Node 0")
		expectSeries(t, "last_contact_timestamp_seconds", fmt.Sprint("metadata ConfigMap ", begin+60),
			fmt.Sprint("typed ConfigMap ", begin+60), fmt.Sprint("typed Node ", begin))
		time.Sleep(time.Minute)
		s.Bookmark()
		synctest.Wait()
		expectSeries(t, "last_contact_timestamp_seconds", fmt.Sprint("metadata ConfigMap ", begin+120),
			fmt.Sprint("typed ConfigMap ", begin+120), fmt.Sprint("typed Node ", begin+120))

		if err := c.RemoveInformer(t.Context(), meta); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expectSeries(t, "objects", "typed ConfigMap 8", "typed Node 1")
	})
	if n := testutil.CollectAndCount(informerStats); n != 0 {
		t.Errorf("the stopped cache left %d series", n)
	}
}

func TestMetricsOfErrors(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		expect(t, names(t, c, client.InNamespace("a")), "a/cm-0 a/cm-1 a/cm-2 a/cm-3")
		time.Sleep(time.Minute)
		s.setMissing(true)
		s.breakWatches("")
		time.Sleep(time.Second)
		expectSeries(t, "watches", "typed ConfigMap 0")
		expectSeries(t, "synced", "typed ConfigMap 1")
		if got := series(t, "errors_total"); len(got) != 1 || !strings.HasPrefix(got[0], "typed ConfigMap NotFound ") {
			t.Errorf("errors %q", got)
		}
		expectSeries(t, "relists_total", "typed ConfigMap 0")
		s.put(configMap("a", "missed")) // the server has no history of it
		s.setMissing(false)
		time.Sleep(time.Minute)
		expectSeries(t, "relists_total", "typed ConfigMap 1")
		expectSeries(t, "watches", "typed ConfigMap 1")
		expectSeries(t, "objects", "typed ConfigMap 13")
	})
}

// The caches of a process share the series of a kind, and counters do not decrease when one of them
// stops.
func TestMetricsOfSeveralCaches(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		stays, goes := newTestCache(t, s, Options{}), newTestCache(t, s, Options{})
		startCache(t, stays)
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- goes.Start(ctx) }()
		synctest.Wait()
		names(t, stays)
		names(t, goes)
		s.put(configMap("a", "new"))
		synctest.Wait()
		expectSeries(t, "objects", "typed ConfigMap 26")
		expectSeries(t, "watches", "typed ConfigMap 2")
		expectSeries(t, "events_total", "typed ConfigMap 2")
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		expectSeries(t, "objects", "typed ConfigMap 13")
		expectSeries(t, "watches", "typed ConfigMap 1")
		expectSeries(t, "events_total", "typed ConfigMap 2")
	})
}

func TestMetricsAreWellFormed(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		names(t, c)
		problems, err := testutil.GatherAndLint(metrics.Registry, "flyball_cache_objects", "flyball_cache_bytes", "flyball_cache_synced",
			"flyball_cache_watches", "flyball_cache_last_contact_timestamp_seconds", "flyball_cache_events_total",
			"flyball_cache_relists_total", "flyball_cache_live_reads_total", "flyball_cache_errors_total")
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	})
}

// Errors are classified by reason and described without secrets.
func TestErrorReasons(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	decoding := apierrors.NewInternalError(errors.New(`cannot read {"password":"secret"}`))
	decoding.ErrStatus.Details.Causes = append(decoding.ErrStatus.Details.Causes, metav1.StatusCause{Type: "ClientWatchDecoding"})
	sent := func(err error) error { return &url.Error{Op: "Get", URL: "https://server/?secret", Err: err} }
	for _, c := range []struct {
		err          error
		reason, text string
	}{
		{apierrors.NewForbidden(pods, "", errors.New("no")), "Forbidden", "Forbidden: pods is forbidden: no"},
		{fmt.Errorf("listing: %w", apierrors.NewNotFound(pods, "x")), "NotFound", `NotFound: pods "x" not found`},
		{decoding, "Decoding", "Decoding"},
		{sent(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}), "Connection", "Connection: dial tcp: connection refused"},
		{sent(&net.DNSError{Err: "no such host", Name: "server"}), "Connection", "Connection: lookup server: no such host"},
		{sent(context.DeadlineExceeded), "Timeout", "Timeout"},
		{io.ErrUnexpectedEOF, "Connection", "Connection"},
		{sent(errors.New("the plugin said secret")), "Connection", "Connection"},
		{reflector.ErrWatchEnded, "Ended", "Ended"},
		{reflector.ErrInitialEventsTimeout, "Silent", "Silent"},
		{reflector.ErrNotAnObject, "Decoding", "Decoding"},
		{errors.New("json: secret"), "Unknown", "Unknown"},
		{apierrors.NewBadRequest(strings.Repeat("ä", 200)), "BadRequest", "BadRequest: " + strings.Repeat("ä", 144) + "..."},
	} {
		if got := reason(c.err); got != c.reason {
			t.Errorf("%v: reason %q, want %q", c.err, got, c.reason)
		}
		if got := publicText(c.err); got != c.text {
			t.Errorf("%v: %q, want %q", c.err, got, c.text)
		}
	}
}
