package queue

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// expect scrapes the metrics with the given names, and compares them with text.
func expect(t *testing.T, c prometheus.Collector, text string, names ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(c, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

func TestMetricsAreReadWhenScraped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector()
		newQueue := func() *Queue[string] {
			q := New(Options[string]{})
			q.meter = c.register("q", q.Stats)
			return q
		}
		a, b := newQueue(), newQueue() // two of one name are added up
		a.Add(0, 0, nil, "x", "y")
		a.Add(0, 7, nil, "z")
		b.Add(time.Second, 7, nil, "w")
		get(t, a)
		time.Sleep(3 * time.Second)
		get(t, a)
		time.Sleep(time.Second)
		expect(t, c, `
# HELP workqueue_depth Number of ready keys in the queue, by priority.
# TYPE workqueue_depth gauge
workqueue_depth{controller="q",name="q",priority="0"} 1
workqueue_depth{controller="q",name="q",priority="7"} 1
# HELP workqueue_adds_total Total number of keys that became ready in the queue.
# TYPE workqueue_adds_total counter
workqueue_adds_total{controller="q",name="q"} 4
# HELP workqueue_retries_total Total number of keys that were added with a delay.
# TYPE workqueue_retries_total counter
workqueue_retries_total{controller="q",name="q"} 1
# HELP workqueue_unfinished_work_seconds Sum of the seconds for which the keys in process have been in process. It grows without bound if a worker is stuck.
# TYPE workqueue_unfinished_work_seconds gauge
workqueue_unfinished_work_seconds{controller="q",name="q"} 5
# HELP workqueue_longest_running_processor_seconds Seconds for which the longest running worker has been processing its key.
# TYPE workqueue_longest_running_processor_seconds gauge
workqueue_longest_running_processor_seconds{controller="q",name="q"} 4
`, "workqueue_depth", "workqueue_adds_total", "workqueue_retries_total",
			"workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds")

		a.ShutDown()
		a.ShutDown()
		b.ShutDown()
		expect(t, c, `
# HELP workqueue_depth Number of ready keys in the queue, by priority.
# TYPE workqueue_depth gauge
workqueue_depth{controller="q",name="q",priority="0"} 0
workqueue_depth{controller="q",name="q",priority="7"} 0
# HELP workqueue_adds_total Total number of keys that became ready in the queue.
# TYPE workqueue_adds_total counter
workqueue_adds_total{controller="q",name="q"} 4
# HELP workqueue_unfinished_work_seconds Sum of the seconds for which the keys in process have been in process. It grows without bound if a worker is stuck.
# TYPE workqueue_unfinished_work_seconds gauge
workqueue_unfinished_work_seconds{controller="q",name="q"} 0
`, "workqueue_depth", "workqueue_adds_total", "workqueue_unfinished_work_seconds")
	})
}

func TestDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector()
		q := New(Options[string]{})
		q.meter = c.register("q", q.Stats)
		defer q.ShutDown()
		q.AddOne(time.Minute, 0, nil, "k")
		time.Sleep(time.Hour) // without a scrape: it is ready after a minute
		q.Get()
		time.Sleep(time.Second)
		q.Done("k")
		for _, h := range []struct {
			vec  *prometheus.HistogramVec
			want float64
		}{{c.latency, 59 * 60}, {c.workDuration, 1}} {
			if got := histogramSum(t, h.vec); got != h.want {
				t.Errorf("got %v s, want %v s", got, h.want)
			}
		}
	})
}

// TestTheOldestWaiter follows it from key to key. A key in process does not wait.
func TestTheOldestWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector()
		q := New(Options[string]{})
		q.meter = c.register("q", q.Stats)
		defer q.ShutDown()
		is := func(want time.Duration) {
			t.Helper()
			expect(t, c, fmt.Sprintf(`
# HELP flyball_workqueue_oldest_waiter_seconds Seconds for which the ready key that has been queued longest has been queued.
# TYPE flyball_workqueue_oldest_waiter_seconds gauge
flyball_workqueue_oldest_waiter_seconds{controller="q",name="q"} %v
`, want.Seconds()), "flyball_workqueue_oldest_waiter_seconds")
		}
		is(0)
		q.AddOne(0, -100, nil, "low")
		q.AddOne(time.Minute, 0, nil, "late")
		time.Sleep(time.Hour)
		q.AddOne(0, 7, nil, "high")
		is(time.Hour)
		for _, want := range []struct {
			key string
			age time.Duration
		}{{"high", time.Hour}, {"late", time.Hour}, {"low", 0}} {
			if key := get(t, q); key != want.key {
				t.Errorf("got %q, want %q", key, want.key)
			}
			is(want.age)
		}
	})
}

func histogramSum(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].Metric[0].Histogram.GetSampleSum()
}

func TestManyPrioritiesShareOneLabel(t *testing.T) {
	c := newCollector()
	q := New(Options[int]{})
	q.meter = c.register("q", q.Stats)
	defer q.ShutDown()
	for i := range 100 {
		q.AddOne(0, i, nil, i)
	}
	if n := testutil.CollectAndCount(c, "workqueue_depth"); n != maxPriorityLabels+1 {
		t.Errorf("%d series, want %d", n, maxPriorityLabels+1)
	}
}

func TestCustomProvider(t *testing.T) {
	c := newCollector() // a provider as good as any
	q := New(Options[string]{Metrics: Metrics{Name: "q", Provider: c}})
	defer q.ShutDown()
	q.Add(0, 3, nil, "a", "b")
	q.Add(time.Hour, 0, nil, "c")
	get(t, q)
	for _, m := range []struct {
		c    prometheus.Collector
		want float64
	}{{c.depth, 1}, {c.adds, 2}, {c.retries, 1}} {
		if got := testutil.ToFloat64(m.c); got != m.want {
			t.Errorf("got %v, want %v", got, m.want)
		}
	}
}
