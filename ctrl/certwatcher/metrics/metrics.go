// Package metrics holds the metrics of certificate watchers.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"flyball.dev/ctrl/metrics"
)

var (
	// ReadCertificateTotal counts the reads of a certificate and its key, failed ones included.
	ReadCertificateTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "certwatcher_read_certificate_total",
		Help: "Total number of certificate reads",
	})

	// ReadCertificateErrors counts the reads that failed.
	ReadCertificateErrors = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "certwatcher_read_certificate_errors_total",
		Help: "Total number of certificate read errors",
	})
)

func init() {
	metrics.Registry.MustRegister(ReadCertificateTotal, ReadCertificateErrors)
}
