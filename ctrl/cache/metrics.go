package cache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"flyball.dev/ctrl/metrics"
)

// informerStats collects the stats of all running informers of the process.
var informerStats = &collector{stats: map[informerKey]*stats{}}

// consistencyWait measures how long reads wait for this process's own writes. Reads that need not
// wait, which is almost all of them, are not counted.
var consistencyWait = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:                            "controller_runtime_client_consistency_wait_duration_seconds",
	Help:                            "Time that reads from the cache wait for own writes, if they have to wait.",
	Buckets:                         []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 6, 8, 10},
	NativeHistogramBucketFactor:     1.1,
	NativeHistogramMaxBucketNumber:  100,
	NativeHistogramMinResetDuration: time.Hour,
}, []string{"operation", "result"})

// observeConsistencyWait records a read that has waited since began.
func observeConsistencyWait(operation string, began time.Time, err error) {
	result := "success"
	if errors.Is(err, context.DeadlineExceeded) {
		result = "timeout"
	} else if err != nil {
		result = "error"
	}
	consistencyWait.WithLabelValues(operation, result).Observe(time.Since(began).Seconds())
}

func init() {
	metrics.Registry.MustRegister(informerStats, consistencyWait)
}

// stats are the stats of a kind in one representation. All caches of the process share them, and
// they exist as long as one of the caches has the kind, so that counters never decrease.
type stats struct {
	informers []*informer // guarded by the collector's lock

	events, relists, liveReads atomic.Int64
	mu                         sync.Mutex
	errors                     map[string]int // by reason
}

// error counts an error of a list or watch.
func (s *stats) error(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors[reason(err)]++
}

// collector collects the stats when metrics are scraped. It implements prometheus.Collector.
type collector struct {
	mu    sync.Mutex
	stats map[informerKey]*stats
}

// register assigns the stats of its kind to an informer that is about to run. The returned function
// unregisters the informer.
func (c *collector) register(i *informer) (unregister func()) {
	for _, p := range i.partitions {
		p.status.start()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := i.informerKey
	s := c.stats[key]
	if s == nil {
		s = &stats{errors: map[string]int{}}
		c.stats[key] = s
	}
	s.informers = append(s.informers, i)
	i.stats = s
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		s.informers = slices.DeleteFunc(s.informers, func(other *informer) bool { return other == i })
		if len(s.informers) == 0 {
			delete(c.stats, key)
		}
	}
}

// desc describes a metric by kind and representation.
func desc(name, help string, labels ...string) *prometheus.Desc {
	labels = append([]string{"group", "version", "kind", "form"}, labels...)
	return prometheus.NewDesc("flyball_cache_"+name, help, labels, nil)
}

var (
	objectsDesc = desc("objects",
		"Number of objects in the cache, by kind and representation (typed, unstructured or metadata).")
	bytesDesc = desc("bytes",
		"Memory used by the packed objects in the cache and the structures that hold them, in bytes. "+
			"Decoded Go values are not included.")
	syncedDesc       = desc("synced", "1 if the initial list of the kind is complete, 0 otherwise.")
	watchesDesc      = desc("watches", "Number of open watches of the kind.")
	lastReceivedDesc = desc("last_contact_timestamp_seconds",
		"Unix time of the last object, event or bookmark received from the server. "+
			"If the kind has several watches, the earliest of theirs.")
	eventsDesc = desc("events_total",
		"Number of added, modified and deleted events received from watches.")
	relistsDesc = desc("relists_total",
		"Number of lists after the initial one, because a watch could not be resumed.")
	liveDesc = desc("live_reads_total",
		"Number of lists made on behalf of reads, because a write by this process had invalidated cached objects.")
	errorsDesc = desc("errors_total", "Number of errors of lists and watches, by reason.", "reason")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		objectsDesc, bytesDesc, syncedDesc, watchesDesc, lastReceivedDesc, eventsDesc, relistsDesc, liveDesc, errorsDesc,
	} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(all chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, s := range c.stats {
		s.collect(key, all)
	}
}

// collect sends the metrics of a kind. The caller holds the collector's lock.
func (s *stats) collect(key informerKey, all chan<- prometheus.Metric) {
	labels := []string{key.gvk.Group, key.gvk.Version, key.gvk.Kind, key.representation.String()}
	send := func(d *prometheus.Desc, of prometheus.ValueType, value float64, more ...string) {
		all <- prometheus.MustNewConstMetric(d, of, value, append(labels, more...)...)
	}
	now := s.gauges()
	send(objectsDesc, prometheus.GaugeValue, float64(now.objects))
	send(bytesDesc, prometheus.GaugeValue, float64(now.bytes))
	send(syncedDesc, prometheus.GaugeValue, float64(now.synced))
	send(watchesDesc, prometheus.GaugeValue, float64(now.watches))
	send(lastReceivedDesc, prometheus.GaugeValue, float64(now.lastReceived.UnixMilli())/1000)

	send(eventsDesc, prometheus.CounterValue, float64(s.events.Load()))
	send(relistsDesc, prometheus.CounterValue, float64(s.relists.Load()))
	send(liveDesc, prometheus.CounterValue, float64(s.liveReads.Load()))
	s.mu.Lock()
	defer s.mu.Unlock()
	for reason, n := range s.errors {
		send(errorsDesc, prometheus.CounterValue, float64(n), reason)
	}
}

// gauges are the current values of the gauges of a kind.
type gauges struct {
	objects, bytes, synced, watches int
	lastReceived                    time.Time
}

// gauges sums over the informers of the kind. The caller holds the collector's lock.
func (s *stats) gauges() gauges {
	g := gauges{synced: 1}
	for _, i := range s.informers {
		objects, bytes := i.store.Size()
		g.objects += objects
		g.bytes += bytes
		if !i.HasSynced() {
			g.synced = 0
		}
		for _, p := range i.partitions {
			last, watching := p.status.lastReceivedAndOpen()
			if watching {
				g.watches++
			}
			if g.lastReceived.IsZero() || last.Before(g.lastReceived) {
				g.lastReceived = last
			}
		}
	}
	return g
}
