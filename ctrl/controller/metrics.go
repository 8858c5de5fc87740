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
		"Reconciles, by controller and result.", "controller", "result")
	reconcileErrors = counterVec("controller_runtime_reconcile_errors_total",
		"Reconciles that returned an error, by controller.", "controller")
	terminalReconcileErrors = counterVec("controller_runtime_terminal_reconcile_errors_total",
		"Reconciles that returned an error which is not tried again, by controller.", "controller")
	reconcilePanics = counterVec("controller_runtime_reconcile_panics_total",
		"Reconciles that panicked, by controller.", "controller")
	reconcileTimeouts = counterVec("controller_runtime_reconcile_timeouts_total",
		"Reconciles that ran into ReconciliationTimeout, by controller.", "controller")
	reconcileConflicts = counterVec("controller_runtime_reconcile_conflicts_total",
		"Reconciles that acted on an old copy and were refused, by controller.", "controller")
	hotLoops = counterVec("flyball_controller_hot_loops_total",
		"Requests that were found to be reconciled again and again for the reconciler's own writes, by controller.", "controller")
	hungReconciles = counterVec("flyball_controller_hung_reconciles_total",
		"Reconciles that ran for longer than HungAfter, by controller.", "controller")
	reconcileTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "controller_runtime_reconcile_time_seconds",
		Help: "Seconds that reconciles took, by controller.",
		Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8,
			0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"controller"})
	workerCount = gaugeVec("controller_runtime_max_concurrent_reconciles",
		"Reconciles that may run at once, by controller.", "controller")
	activeWorkers = gaugeVec("controller_runtime_active_workers",
		"Reconciles that run now, by controller.", "controller")
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

// counters are the series of one controller. Making them makes every one appear, at zero.
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
