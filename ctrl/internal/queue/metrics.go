package queue

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/metrics"
)

// Metrics is where a queue reports its metrics. The zero value disables them.
type Metrics struct {
	// Name is the value of the labels name and controller. Without it there are no metrics.
	Name string
	// Provider creates the metrics. Nil means the workqueue_* metrics of metrics.Registry, which
	// cost the queue two histogram observations a key: the rest is collected on scrape. With any
	// other provider the gauges are set by every operation.
	Provider workqueue.MetricsProvider
}

// meter holds the metrics of one queue.
type meter struct {
	latency, workDuration workqueue.HistogramMetric
	push                  func(Stats) // called with the lock held after every change; may be nil
	unregister            func()
}

func (m *meter) observeLatency(d time.Duration) {
	if m.latency != nil {
		m.latency.Observe(d.Seconds())
	}
}

func (m *meter) observeWorkDuration(d time.Duration) {
	if m.workDuration != nil {
		m.workDuration.Observe(d.Seconds())
	}
}

// close unregisters the queue. It must be called without the queue's lock: a scrape holds the
// collector's lock and takes the queue's.
func (m *meter) close() {
	if m.unregister != nil {
		m.unregister()
	}
}

func (m Metrics) newMeter(stats func() Stats) meter {
	switch {
	case m.Name == "":
		return meter{}
	case m.Provider != nil:
		return providerMeter(m.Provider, m.Name)
	default:
		return queues.register(m.Name, stats)
	}
}

// providerMeter reports every change to a provider, because the counters and gauges of a provider
// cannot be read on scrape.
func providerMeter(p workqueue.MetricsProvider, name string) meter {
	adds, retries, depth := p.NewAddsMetric(name), p.NewRetriesMetric(name), p.NewDepthMetric(name)
	unfinished := p.NewUnfinishedWorkSecondsMetric(name)
	longest := p.NewLongestRunningProcessorSecondsMetric(name)
	var last Stats
	var lastDepth int
	return meter{
		latency:      p.NewLatencyMetric(name),
		workDuration: p.NewWorkDurationMetric(name),
		push: func(s Stats) {
			for ; last.Adds < s.Adds; last.Adds++ {
				adds.Inc()
			}
			for ; last.Retries < s.Retries; last.Retries++ {
				retries.Inc()
			}
			sum := 0
			for _, n := range s.Depth {
				sum += n
			}
			for ; lastDepth < sum; lastDepth++ {
				depth.Inc()
			}
			for ; lastDepth > sum; lastDepth-- {
				depth.Dec()
			}
			unfinished.Set(s.Unfinished.Seconds())
			longest.Set(s.Longest.Seconds())
		},
	}
}

// collector owns the workqueue_* metrics. On every scrape it updates them from the open queues.
type collector struct {
	adds, retries              *prometheus.CounterVec
	depth, unfinished, longest *prometheus.GaugeVec
	latency, workDuration      *prometheus.HistogramVec
	oldest                     *prometheus.GaugeVec
	causes                     *prometheus.CounterVec

	mu     sync.Mutex
	groups map[string]*group
}

// group is the queues of one name. Their metrics are summed.
type group struct {
	name    string
	members []*member
	labels  map[int]string // by priority, for every priority seen
}

// member is one queue of a group.
type member struct {
	stats func() Stats
	last  Stats // already added to the counters
}

const (
	// maxPriorityLabels bounds the series of one queue's depth.
	maxPriorityLabels = 25
	otherPriorities   = "exceeded_cardinality_limit"
)

var queues = newCollector()

func init() {
	metrics.Registry.MustRegister(queues)
	workqueue.SetProvider(queues)
}

// newCollector returns the collector of the metrics of all queues.
func newCollector() *collector {
	labels := []string{"name", "controller"}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: metrics.WorkQueueSubsystem, Name: name, Help: help,
			Buckets:                         prometheus.ExponentialBuckets(10e-9, 10, 12),
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Subsystem: metrics.WorkQueueSubsystem, Name: name, Help: help,
		}, labels)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: metrics.WorkQueueSubsystem, Name: name, Help: help,
		}, labels)
	}
	return &collector{
		adds:    counter(metrics.AddsKey, "Total number of keys that became ready in the queue."),
		retries: counter(metrics.RetriesKey, "Total number of keys that were added with a delay."),
		depth: gauge(metrics.DepthKey, "Number of ready keys in the queue, by priority.",
			append(labels, "priority")...),
		unfinished: gauge(metrics.UnfinishedWorkKey,
			"Sum of the seconds for which the keys in process have been in process. "+
				"It grows without bound if a worker is stuck.", labels...),
		longest: gauge(metrics.LongestRunningProcessorKey,
			"Seconds for which the longest running worker has been processing its key.", labels...),
		latency: histogram(metrics.QueueLatencyKey,
			"Seconds for which keys were ready in the queue before they were handed out."),
		workDuration: histogram(metrics.WorkDurationKey, "Seconds for which keys were processed."),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "flyball_workqueue_oldest_waiter_seconds",
			Help: "Seconds for which the ready key that has been queued longest has been queued.",
		}, labels),
		causes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flyball_workqueue_causes_total",
			Help: "Total number of additions to the queue, by cause.",
		}, append(labels, "cause")),
		groups: map[string]*group{},
	}
}

func (c *collector) register(name string, stats func() Stats) meter {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[name]
	if g == nil {
		g = &group{name: name, labels: map[int]string{}}
		c.groups[name] = g
	}
	m := &member{stats: stats}
	g.members = append(g.members, m)
	return meter{
		latency:      c.NewLatencyMetric(name),
		workDuration: c.NewWorkDurationMetric(name),
		unregister:   func() { c.unregister(g, m) },
	}
}

// unregister collects a queue that has shut down for the last time. It is idempotent.
func (c *collector) unregister(g *group, m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(g.members, m); i >= 0 {
		c.count(g.name, m, m.stats())
		g.members = slices.Delete(g.members, i, i+1)
		c.refresh(g)
	}
}

// refresh updates the series of one name.
func (c *collector) refresh(g *group) {
	var unfinished, longest, oldest time.Duration
	depth := map[string]int{}
	for _, label := range g.labels {
		depth[label] = 0
	}
	for _, m := range g.members {
		s := m.stats()
		c.count(g.name, m, s)
		unfinished += s.Unfinished
		longest = max(longest, s.Longest)
		oldest = max(oldest, s.Oldest)
		for priority, n := range s.Depth {
			depth[g.label(priority)] += n
		}
	}
	for label, n := range depth {
		c.depth.WithLabelValues(g.name, g.name, label).Set(float64(n))
	}
	c.unfinished.WithLabelValues(g.name, g.name).Set(unfinished.Seconds())
	c.longest.WithLabelValues(g.name, g.name).Set(longest.Seconds())
	c.oldest.WithLabelValues(g.name, g.name).Set(oldest.Seconds())
}

// count adds to the counters what m has counted since the last collection.
func (c *collector) count(name string, m *member, s Stats) {
	c.adds.WithLabelValues(name, name).Add(float64(s.Adds - m.last.Adds))
	c.retries.WithLabelValues(name, name).Add(float64(s.Retries - m.last.Retries))
	for kind, n := range s.Causes {
		if more := n - m.last.Causes[kind]; more > 0 {
			c.causes.WithLabelValues(name, name, cause.Kind(kind).String()).Add(float64(more))
		}
	}
	m.last = s
}

func (g *group) label(priority int) string {
	label, ok := g.labels[priority]
	if !ok {
		if len(g.labels) >= maxPriorityLabels {
			return otherPriorities
		}
		label = strconv.Itoa(priority)
		g.labels[priority] = label
	}
	return label
}

func (c *collector) vectors() []prometheus.Collector {
	return []prometheus.Collector{c.depth, c.adds, c.latency, c.workDuration, c.unfinished, c.longest,
		c.retries, c.oldest, c.causes}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range c.vectors() {
		v.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	for _, g := range c.groups {
		c.refresh(g)
	}
	c.mu.Unlock()
	for _, v := range c.vectors() {
		v.Collect(ch)
	}
}

// The collector is also the provider for client-go's own queues, so that they appear under the same
// names, without a priority.

func (c *collector) NewDepthMetric(name string) workqueue.GaugeMetric {
	return c.depth.WithLabelValues(name, name, "")
}

func (c *collector) NewAddsMetric(name string) workqueue.CounterMetric {
	return c.adds.WithLabelValues(name, name)
}

func (c *collector) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return c.latency.WithLabelValues(name, name)
}

func (c *collector) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return c.workDuration.WithLabelValues(name, name)
}

func (c *collector) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return c.unfinished.WithLabelValues(name, name)
}

func (c *collector) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return c.longest.WithLabelValues(name, name)
}

func (c *collector) NewRetriesMetric(name string) workqueue.CounterMetric {
	return c.retries.WithLabelValues(name, name)
}
