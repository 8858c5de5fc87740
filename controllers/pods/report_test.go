package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReportOfALaterClock: a node with a heartbeat of a clock that was ahead posts its status as one that has just posted it.
func TestReportOfALaterClock(t *testing.T) {
	now := time.Unix(1000, 0)
	next := func(heartbeat time.Time) time.Time {
		n, r := &corev1.Node{}, newReports()
		n.Name = "n"
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(heartbeat)}}
		r.due(n, now)
		return r.next["n"]
	}
	if got, want := next(now.Add(time.Hour)), next(now); !got.Equal(want) {
		t.Errorf("the next post is at %v, want %v", got, want)
	}
	if got, want := next(now.Add(-time.Minute)), next(now).Add(-time.Minute); !got.Equal(want) {
		t.Errorf("the next post is at %v, want %v", got, want)
	}
}
