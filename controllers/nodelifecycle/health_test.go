package nodelifecycle

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSignsOfLife: what kubelet does, each after a number of seconds, the second at which it becomes overdue, and the version of the
// last lease that was a sign of life.
func TestSignsOfLife(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	type step struct {
		at   int
		what string // posts, posts the same, removes, renews, renews ahead, touches, creates a lease or is made unknown
	}
	for _, tt := range []struct {
		name    string
		steps   []step
		overdue int
		version string
	}{
		{"nothing", nil, 60, ""},
		{"one status", []step{{3, "posts"}}, 53, ""},
		{"two statuses", []step{{3, "posts"}, {13, "posts"}}, 63, ""},
		{"a change without a heartbeat", []step{{3, "posts"}, {13, "posts the same"}}, 53, ""},
		{"a status that is removed", []step{{3, "posts"}, {13, "removes"}}, 63, ""},
		{"no status stays removed", []step{{3, "posts"}, {13, "removes"}, {20, "removes"}}, 63, ""},
		{"a status after one that was removed", []step{{3, "posts"}, {13, "removes"}, {20, "posts"}}, 70, ""},
		{"a status that is removed before the next look", []step{{3, "posts"}, {3, "removes"}}, 60, ""},
		{"a status that is there again at the next look", []step{{3, "posts"}, {13, "removes"}, {13, "posts the same"}}, 53, ""},
		{"a lease without a status", []step{{3, "renews"}}, 63, "3"},
		{"renewals", []step{{3, "posts"}, {4, "renews"}, {14, "renews"}}, 64, "14"},
		{"a status with a lease", []step{{3, "renews"}, {4, "posts"}}, 59, "3"},
		{"a status after a renewal", []step{{3, "posts"}, {4, "renews"}, {14, "posts"}}, 69, "4"},
		{"a renewal after a status", []step{{3, "posts"}, {4, "renews"}, {14, "posts"}, {24, "renews"}}, 74, "24"},
		{"a lease that is not renewed", []step{{3, "posts"}, {4, "renews"}, {14, "touches"}}, 54, "4"},
		{"a lease without a time", []step{{3, "posts"}, {4, "creates a lease"}, {14, "touches"}}, 54, "4"},
		{"renewals after one of a clock that was ahead", []step{{3, "posts"}, {4, "renews ahead"}, {14, "renews"}, {24, "renews"}}, 54, "4"},
		{"a status after that, with renewals", []step{{3, "posts"}, {4, "renews ahead"}, {14, "renews"}, {24, "posts"}, {34, "renews"}}, 84, "34"},
		{"a status after that, without renewals", []step{{3, "posts"}, {4, "renews ahead"}, {14, "renews"}, {24, "posts"}, {34, "touches"}}, 79, "14"},
		{"a status after that, and a renewal before the next look", []step{{3, "posts"}, {14, "renews ahead"}, {24, "posts"}, {27, "renews"}}, 79, "27"},
		{"unknown", []step{{3, "posts"}, {53, "is made unknown"}}, 53, ""},
		{"never posted", []step{{60, "is made unknown"}}, 50, ""},
		{"never posted, and posts", []step{{60, "is made unknown"}, {70, "posts"}}, 120, ""},
	} {
		h, lease := &health{now: signs{probe: start}}, &renewal{}
		var ready, posted *corev1.NodeCondition
		stored := &coordinationv1.Lease{}
		for _, s := range tt.steps {
			now := at(s.at)
			stored.ResourceVersion = now.Sub(start).String()
			stored.ResourceVersion = stored.ResourceVersion[:len(stored.ResourceVersion)-1]
			switch s.what {
			case "posts":
				ready = &corev1.NodeCondition{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(now)}
				posted = ready
			case "removes":
				ready = nil
			case "renews", "renews ahead":
				stored.Spec.RenewTime = &metav1.MicroTime{Time: now}
				if s.what == "renews ahead" {
					stored.Spec.RenewTime.Time = now.Add(time.Hour)
				}
				lease.observe(stored.DeepCopy(), now)
			case "touches", "creates a lease":
				lease.observe(stored.DeepCopy(), now)
			case "posts the same":
				ready = posted
			case "is made unknown":
				if ready == nil {
					ready = &corev1.NodeCondition{Type: corev1.NodeReady}
				}
				h.record(ready)
			}
			h.observe(ready, lease, now)
		}
		if got := int(h.overdueAt(lease, time.Time{}).Sub(start).Seconds()); got != tt.overdue || lease.sign.version != tt.version {
			t.Errorf("%s: overdue at %d, with the lease %q; want %d and %q", tt.name, got, lease.sign.version, tt.overdue, tt.version)
		}
	}
}
