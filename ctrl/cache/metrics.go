package cache

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"flyball.dev/ctrl/metrics"
)

// informerStats are the figures of all informers that run in this process.
var informerStats = &collector{stats: map[informerKey]*stats{}}

func init() {
	metrics.Registry.MustRegister(informerStats)
}

// stats is the figures of a kind in a form. All caches of the process share it,
// and it lasts as long as one of them has the kind. So no counter ever falls.
type stats struct {
	informers []*informer // guarded by the collector's lock

	events, relists, liveReads atomic.Int64
	mu                         sync.Mutex
	errors                     map[string]int // by reason
}

func (t *stats) error(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors[reason(err)]++
}

// collector reads the tallies when metrics are scraped. It implements
// prometheus.Collector.
type collector struct {
	mu      sync.Mutex
	stats map[informerKey]*stats
}

// register gives an informer that begins to run its tally. The function that it
// returns takes the informer out again.
func (c *collector) register(i *informer) (leave func()) {
	for _, p := range i.partitions {
		p.status.start()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := informerKey{i.gvk, i.representation}
	t := c.stats[key]
	if t == nil {
		t = &stats{errors: map[string]int{}}
		c.stats[key] = t
	}
	t.informers = append(t.informers, i)
	i.stats = t
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.informers = slices.DeleteFunc(t.informers, func(other *informer) bool { return other == i })
		if len(t.informers) == 0 {
			delete(c.stats, key)
		}
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("flyball_cache_"+name, help, append([]string{"group", "version", "kind", "form"}, labels...), nil)
}

var (
	objectsDesc = desc("objects", "Objects in the cache, by kind and by their form in Go.")
	bytesDesc   = desc("bytes", "Bytes that the packed objects in the cache and what holds them take. Go values that are kept beside them are not counted.")
	syncedDesc  = desc("synced", "1 if all objects of the kind were listed, 0 while they are not.")
	watchesDesc = desc("watches", "Watches of the kind that are open.")
	lastReceivedDesc = desc("last_contact_timestamp_seconds", "Unix time at which the server last told something of the kind, be it that nothing is new. Of several watches that of the most silent.")
	eventsDesc  = desc("events_total", "Changes and deletions that watches told of.")
	relistsDesc = desc("relists_total", "Lists of the kind after the first, because a watch could not be continued.")
	liveDesc    = desc("live_reads_total", "Lists for the sake of reads, because a write of this process had made the cache out of date.")
	errorsDesc  = desc("errors_total", "Errors of lists and watches, by reason.", "reason")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{objectsDesc, bytesDesc, syncedDesc, watchesDesc, lastReceivedDesc, eventsDesc, relistsDesc, liveDesc, errorsDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(all chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, t := range c.stats {
		t.collect(key, all)
	}
}

// collect sends the figures of a kind. The caller holds the collector's lock.
func (t *stats) collect(key informerKey, all chan<- prometheus.Metric) {
	labels := []string{key.gvk.Group, key.gvk.Version, key.gvk.Kind, key.representation.String()}
	send := func(d *prometheus.Desc, of prometheus.ValueType, value float64, more ...string) {
		all <- prometheus.MustNewConstMetric(d, of, value, append(labels, more...)...)
	}
	now := t.gauges()
	send(objectsDesc, prometheus.GaugeValue, float64(now.objects))
	send(bytesDesc, prometheus.GaugeValue, float64(now.bytes))
	send(syncedDesc, prometheus.GaugeValue, float64(now.synced))
	send(watchesDesc, prometheus.GaugeValue, float64(now.watches))
	send(lastReceivedDesc, prometheus.GaugeValue, float64(now.lastReceived.UnixMilli())/1000)

	send(eventsDesc, prometheus.CounterValue, float64(t.events.Load()))
	send(relistsDesc, prometheus.CounterValue, float64(t.relists.Load()))
	send(liveDesc, prometheus.CounterValue, float64(t.liveReads.Load()))
	t.mu.Lock()
	defer t.mu.Unlock()
	for reason, n := range t.errors {
		send(errorsDesc, prometheus.CounterValue, float64(n), reason)
	}
}

// gauges is how the informers of a kind are now.
type gauges struct {
	objects, bytes, synced, watches int
	lastReceived                         time.Time
}

// gauges sums up the informers. The caller holds the collector's lock.
func (t *stats) gauges() gauges {
	s := gauges{synced: 1}
	for _, i := range t.informers {
		objects, bytes := i.store.Size()
		s.objects += objects
		s.bytes += bytes
		if !i.HasSynced() {
			s.synced = 0
		}
		for _, p := range i.partitions {
			last, watching := p.status.lastReceivedAndOpen()
			if watching {
				s.watches++
			}
			if s.lastReceived.IsZero() || last.Before(s.lastReceived) {
				s.lastReceived = last
			}
		}
	}
	return s
}
