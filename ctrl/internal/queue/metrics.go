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

// Metrics says where a queue reports to. The zero value reports nowhere.
type Metrics struct {
	// Name is the value of the labels name and controller. Without it nothing is reported.
	Name string
	// Provider takes the figures. Nil means the workqueue_* metrics of metrics.Registry, which cost
	// the queue nothing but two histogram observations a key: the rest is read when it is scraped.
	// With any other provider the gauges are set whenever the queue is used.
	Provider workqueue.MetricsProvider
}

// meter is one queue's end of the metrics.
type meter struct {
	latency, workDuration workqueue.HistogramMetric
	push                  func(Stats) // called with the queue's lock held after every change, unless nil
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

// close must be called without the queue's lock: a scrape holds the collector's and takes the
// queue's.
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

// providerMeter reports every change to a provider that has only counters and gauges.
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

// collector keeps the workqueue_* metrics. Before every scrape it brings them up to date from the
// queues that are alive.
type collector struct {
	adds, retries              *prometheus.CounterVec
	depth, unfinished, longest *prometheus.GaugeVec
	latency, workDuration      *prometheus.HistogramVec
	oldest                     *prometheus.GaugeVec
	causes                     *prometheus.CounterVec

	mu     sync.Mutex
	groups map[string]*group
}

// group is the queues of one name, whose figures are added up.
type group struct {
	name    string
	members []*member
	labels  map[int]string // the label of every priority seen
}

type member struct {
	stats func() Stats
	last  Stats // what has been added to the counters
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
		adds:    counter(metrics.AddsKey, "Keys that became ready in the queue."),
		retries: counter(metrics.RetriesKey, "Keys that were added with a delay."),
		depth: gauge(metrics.DepthKey, "Keys that are ready in the queue, by priority.",
			append(labels, "priority")...),
		unfinished: gauge(metrics.UnfinishedWorkKey,
			"Seconds that the keys now in process have been in process, together. It grows without end if a worker is stuck.", labels...),
		longest: gauge(metrics.LongestRunningProcessorKey,
			"Seconds that the longest running worker has had its key.", labels...),
		latency:      histogram(metrics.QueueLatencyKey, "Seconds that keys were ready in the queue before a worker took them."),
		workDuration: histogram(metrics.WorkDurationKey, "Seconds that workers took for keys."),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "flyball_workqueue_oldest_waiter_seconds",
			Help: "Seconds that the key has been in line that has been there longest.",
		}, labels),
		causes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flyball_workqueue_causes_total",
			Help: "Keys that were added to the queue, by what caused it.",
		}, append(labels, "cause")),
		groups: map[string]*group{},
	}
}

func (c *collector) register(name string, stats func() Stats) meter {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.groups[name]
	if f == nil {
		f = &group{name: name, labels: map[int]string{}}
		c.groups[name] = f
	}
	m := &member{stats: stats}
	f.members = append(f.members, m)
	return meter{
		latency:      c.NewLatencyMetric(name),
		workDuration: c.NewWorkDurationMetric(name),
		unregister:   func() { c.unregister(f, m) },
	}
}

// unregister takes the last figures of a queue that has shut down. It may be called again.
func (c *collector) unregister(f *group, m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(f.members, m); i >= 0 {
		c.count(f.name, m, m.stats())
		f.members = slices.Delete(f.members, i, i+1)
		c.refresh(f)
	}
}

// refresh brings the series of one name up to date.
func (c *collector) refresh(f *group) {
	var unfinished, longest, oldest time.Duration
	depth := map[string]int{}
	for _, label := range f.labels {
		depth[label] = 0
	}
	for _, m := range f.members {
		s := m.stats()
		c.count(f.name, m, s)
		unfinished += s.Unfinished
		longest = max(longest, s.Longest)
		oldest = max(oldest, s.Oldest)
		for priority, n := range s.Depth {
			depth[f.label(priority)] += n
		}
	}
	for label, n := range depth {
		c.depth.WithLabelValues(f.name, f.name, label).Set(float64(n))
	}
	c.unfinished.WithLabelValues(f.name, f.name).Set(unfinished.Seconds())
	c.longest.WithLabelValues(f.name, f.name).Set(longest.Seconds())
	c.oldest.WithLabelValues(f.name, f.name).Set(oldest.Seconds())
}

// count adds to the counters what m has counted since the last time.
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

func (f *group) label(priority int) string {
	label, ok := f.labels[priority]
	if !ok {
		if len(f.labels) >= maxPriorityLabels {
			return otherPriorities
		}
		label = strconv.Itoa(priority)
		f.labels[priority] = label
	}
	return label
}

func (c *collector) vectors() []prometheus.Collector {
	return []prometheus.Collector{c.depth, c.adds, c.latency, c.workDuration, c.unfinished, c.longest, c.retries,
		c.oldest, c.causes}
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
	for _, f := range c.groups {
		c.refresh(f)
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
