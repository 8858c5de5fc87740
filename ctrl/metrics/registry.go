// Package metrics has the registry of the runtime's metrics, and registers client-go's metrics.
//
// Metrics are registered when their packages are imported. There is no polling: values are counted
// as events happen, or collected on scrape.
//
// # The metrics
//
// The metrics of controller-runtime have the same names and labels, so its dashboards work:
// controller_runtime_*, workqueue_*, rest_client_* and leader_election_*. The others are:
//
//	controller_runtime_reconcile_conflicts_total
//	                                         reconciles that failed with a conflict, by controller
//	flyball_controller_hot_loops_total       hot loops: endless reconciles caused by own writes
//	flyball_controller_hung_reconciles_total reconciles that ran for longer than HungAfter
//	flyball_development_warnings_total       warnings of the manager's option Development, by check
//	flyball_workqueue_oldest_waiter_seconds  how long the oldest ready key has been queued
//	flyball_workqueue_causes_total           additions to the queue, by cause
//
// The metrics of caches have the labels group, version, kind and form: the representation, typed,
// unstructured or metadata. They are sums over all namespaces and all caches of the process; there
// are none of a kind that no running cache has.
//
//	flyball_cache_objects                    objects in the cache
//	flyball_cache_bytes                      packed size of the objects
//	flyball_cache_synced                     1 if all initial lists are complete
//	flyball_cache_watches                    open watches
//	flyball_cache_last_contact_timestamp_seconds
//	                                         time of the last event or bookmark; the minimum over
//	                                         the watches of the kind
//	flyball_cache_events_total               events that watches delivered
//	flyball_cache_relists_total              lists after the first, because a watch could not be
//	                                         continued
//	flyball_cache_live_reads_total           lists of objects that own writes had invalidated
//	flyball_cache_errors_total               errors of lists and watches, by reason: the reason of the API
//	                                         status, or Connection, Timeout, Decoding, Ended,
//	                                         Silent or Unknown
//
// A cache is up to date if it is synced, and time() - flyball_cache_last_contact_timestamp_seconds
// stays below the interval of the server's bookmarks, which is about a minute.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"flyball.dev/ctrl/internal/aliasvar"
)

// RegistererGatherer is a registry to register with and to gather from.
type RegistererGatherer interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Registry holds the metrics of the runtime, of the process and of the Go runtime. The manager's
// metrics server serves it, and programs may add their own metrics to it.
var Registry RegistererGatherer = prometheus.NewRegistry()

var registry = aliasvar.Var[RegistererGatherer]{Original: &Registry}

// CurrentRegistry returns the registry that metrics servers serve: [Registry], or its alias. It is
// an addition of Flyball.
func CurrentRegistry() RegistererGatherer { return registry.Get() }

// AliasRegistry makes metrics servers use the value at alias instead of [Registry] once it has been
// changed. It is an addition of Flyball, for packages that export the variable under another import
// path, and is called when they are initialized.
func AliasRegistry(alias *RegistererGatherer) { registry.SetAlias(alias) }

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
