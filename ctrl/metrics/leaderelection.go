package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/leaderelection"
)

var (
	leaderStatus = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leader_election_master_status",
		Help: "1 if this process holds the lease with this name, otherwise 0.",
	}, []string{"name"})

	leaderSlowPath = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leader_election_slowpath_total",
		Help: "Total number of renewals of the lease with this name that read it first (slow path).",
	}, []string{"name"})
)

func init() {
	Registry.MustRegister(leaderStatus, leaderSlowPath)
	leaderelection.SetProvider(leaderMetrics{})
}

// leaderMetrics implements client-go's interface for the metrics of leader election.
type leaderMetrics struct{}

func (leaderMetrics) NewLeaderMetric() leaderelection.LeaderMetric { return leaderMetrics{} }

func (leaderMetrics) On(name string)                { leaderStatus.WithLabelValues(name).Set(1) }
func (leaderMetrics) Off(name string)               { leaderStatus.WithLabelValues(name).Set(0) }
func (leaderMetrics) SlowpathExercised(name string) { leaderSlowPath.WithLabelValues(name).Inc() }
