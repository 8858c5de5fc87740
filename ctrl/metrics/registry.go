// Package metrics holds the registry of every metric of the runtime, and puts the metrics of
// client-go into it.
//
// Metrics are registered when the packages that own them are imported. Nothing is measured
// in the background: figures are counted as things happen or read when they are scraped.
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
