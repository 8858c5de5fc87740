package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/leaderelection"
)

var (
	leaderStatus = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leader_election_master_status",
		Help: "1 while this process holds the lease of that name, 0 while it waits for it.",
	}, []string{"name"})

	leaderSlowPath = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leader_election_slowpath_total",
		Help: "Renewals of the lease of that name that had to read it first.",
	}, []string{"name"})
)

func init() {
	Registry.MustRegister(leaderStatus, leaderSlowPath)
	leaderelection.SetProvider(leaderMetrics{})
}

// leaderMetrics counts for client-go's elector, which names the lease with every event.
type leaderMetrics struct{}

func (leaderMetrics) NewLeaderMetric() leaderelection.LeaderMetric { return leaderMetrics{} }

func (leaderMetrics) On(name string)                { leaderStatus.WithLabelValues(name).Set(1) }
func (leaderMetrics) Off(name string)               { leaderStatus.WithLabelValues(name).Set(0) }
func (leaderMetrics) SlowpathExercised(name string) { leaderSlowPath.WithLabelValues(name).Inc() }
