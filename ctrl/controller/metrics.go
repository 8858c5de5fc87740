package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"flyball.dev/ctrl/metrics"
)

// The values of the label result.
const (
	resultSuccess      = "success"
	resultError        = "error"
	resultRequeue      = "requeue"
	resultRequeueAfter = "requeue_after"
)

var (
	reconcileTotal = counterVec("controller_runtime_reconcile_total",
		"Total number of reconciliations per controller and result.", "controller", "result")
	reconcileErrors = counterVec("controller_runtime_reconcile_errors_total",
		"Total number of reconciliation errors per controller.", "controller")
	terminalReconcileErrors = counterVec("controller_runtime_terminal_reconcile_errors_total",
		"Total number of terminal reconciliation errors, which are not retried, per controller.", "controller")
	reconcilePanics = counterVec("controller_runtime_reconcile_panics_total",
		"Total number of reconciliation panics per controller.", "controller")
	reconcileTimeouts = counterVec("controller_runtime_reconcile_timeouts_total",
		"Total number of reconciliation timeouts per controller.", "controller")
	reconcileConflicts = counterVec("controller_runtime_reconcile_conflicts_total",
		"Total number of reconciliations that failed with a conflict per controller.", "controller")
	hotLoops = counterVec("flyball_controller_hot_loops_total",
		"Total number of hot loops, caused by the reconciler's own writes, per controller.", "controller")
	hungReconciles = counterVec("flyball_controller_hung_reconciles_total",
		"Total number of reconciliations that ran for longer than HungAfter per controller.", "controller")
	reconcileTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "controller_runtime_reconcile_time_seconds",
		Help: "Duration of reconciliations in seconds per controller.",
		Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8,
			0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"controller"})
	workerCount = gaugeVec("controller_runtime_max_concurrent_reconciles",
		"Maximum number of concurrent reconciles per controller.", "controller")
	activeWorkers = gaugeVec("controller_runtime_active_workers",
		"Number of reconciles that are running per controller.", "controller")
)

func init() {
	metrics.Registry.MustRegister(reconcileTotal, reconcileErrors, terminalReconcileErrors, reconcilePanics,
		reconcileTimeouts, reconcileConflicts, hotLoops, hungReconciles, reconcileTime, workerCount, activeWorkers)
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// counters are the series of one controller. Creating them exports every one with the value 0.
type counters struct {
	results                           map[string]prometheus.Counter
	errors, terminalErrors, conflicts prometheus.Counter
	hotLoops, hung                    prometheus.Counter
	duration                          prometheus.Observer
	maxWorkers, activeWorkers         prometheus.Gauge
}

func newCounters(name string) *counters {
	reconcilePanics.WithLabelValues(name)
	reconcileTimeouts.WithLabelValues(name)
	m := &counters{
		results:        map[string]prometheus.Counter{},
		errors:         reconcileErrors.WithLabelValues(name),
		terminalErrors: terminalReconcileErrors.WithLabelValues(name),
		conflicts:      reconcileConflicts.WithLabelValues(name),
		hotLoops:       hotLoops.WithLabelValues(name),
		hung:           hungReconciles.WithLabelValues(name),
		duration:       reconcileTime.WithLabelValues(name),
		maxWorkers:     workerCount.WithLabelValues(name),
		activeWorkers:  activeWorkers.WithLabelValues(name),
	}
	for _, result := range []string{resultSuccess, resultError, resultRequeue, resultRequeueAfter} {
		m.results[result] = reconcileTotal.WithLabelValues(name, result)
	}
	return m
}
