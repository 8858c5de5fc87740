package daemonset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"flyball.dev/controllers/internal/podstate"
)

// status returns the status of the DaemonSet. Of several pods on a node, the oldest counts. after is the time until
// another pod becomes available, or zero.
//
//upstream:pkg/controller/daemon.DaemonSetsController.updateDaemonSetStatus
//upstream:pkg/controller/daemon.storeDaemonSetStatus
func (o *observed) status() (s appsv1.DaemonSetStatus, after time.Duration) {
	s = appsv1.DaemonSetStatus{ObservedGeneration: o.set.Generation,
		CollisionCount: o.set.Status.CollisionCount, Conditions: o.set.Status.Conditions}
	for _, node := range o.nodes {
		pods := o.pods[node.Name]
		switch {
		case !o.fits[node.Name].run:
			if len(pods) > 0 {
				s.NumberMisscheduled++
			}
			continue
		case len(pods) == 0:
			s.DesiredNumberScheduled++
			continue
		}
		s.DesiredNumberScheduled++
		s.CurrentNumberScheduled++
		if podstate.Ready(pods[0]) {
			s.NumberReady++
		}
		switch ok, left := podstate.Available(pods[0], o.minReady(), o.now); {
		case ok:
			s.NumberAvailable++
		case left > 0 && (after == 0 || left < after):
			after = left
		}
		if o.updated(pods[0]) {
			s.UpdatedNumberScheduled++
		}
	}
	s.NumberUnavailable = s.DesiredNumberScheduled - s.NumberAvailable
	return s, after
}
