// Package metrics holds the registry of every metric of the runtime, and puts the metrics of
// client-go into it.
//
// Metrics are registered when the packages that own them are imported. Nothing is measured
// in the background: figures are counted as things happen or read when they are scraped.
//
// # The metrics
//
// Names and labels that controller-runtime has are the same here, so its dashboards work:
// controller_runtime_*, workqueue_*, rest_client_* and leader_election_*. These are more:
//
//	flyball_controller_hot_loops_total       requests that come back for their own writes
//	flyball_controller_hung_reconciles_total reconciles that run for longer than HungAfter
//	flyball_workqueue_oldest_waiter_seconds  how long the key has been in line that came first
//	flyball_workqueue_causes_total           keys that were added, by what caused it
//
// What caches hold and hear is told by the labels group, version, kind and form (typed, unstructured
// or metadata). All namespaces, and all caches of the process, are counted together; a kind that no
// running cache has is not told of.
//
//	flyball_cache_objects                    objects in the cache
//	flyball_cache_bytes                      bytes that they take, packed
//	flyball_cache_synced                     1 if all of them were listed
//	flyball_cache_watches                    watches that are open
//	flyball_cache_last_contact_timestamp_seconds
//	                                         when the server last told something, if only that
//	                                         nothing is new; of several watches the most silent
//	flyball_cache_events_total               changes and deletions that watches told of
//	flyball_cache_relists_total              lists after the first: a watch could not be continued
//	flyball_cache_errors_total               errors of lists and watches, by reason: the API's own
//	                                         word, or Connection, Timeout, Decoding,
//	                                         Ended, Silent or Unknown
//
// A cache is up to date if it is synced, and time() - flyball_cache_last_contact_timestamp_seconds
// stays below the interval of the server's bookmarks, which is about a minute.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// RegistererGatherer is a registry to register with and to gather from.
type RegistererGatherer interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Registry holds the metrics of the runtime, of the process and of the Go runtime. The manager's
// metrics server serves it, and programs may add their own metrics to it.
var Registry RegistererGatherer = prometheus.NewRegistry()

func init() {
	Registry.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)),
	)
}

// The names of the metrics of work queues, each below WorkQueueSubsystem.
const (
	WorkQueueSubsystem         = "workqueue"
	DepthKey                   = "depth"
	AddsKey                    = "adds_total"
	QueueLatencyKey            = "queue_duration_seconds"
	WorkDurationKey            = "work_duration_seconds"
	UnfinishedWorkKey          = "unfinished_work_seconds"
	LongestRunningProcessorKey = "longest_running_processor_seconds"
	RetriesKey                 = "retries_total"
)
