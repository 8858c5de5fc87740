package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// Events above the rate limit are dropped, and do not block.
func TestEventRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := record.NewFakeRecorder(2 * eventsBurst)
		r := &limitedRecorder{fake, newEventLimiter()}
		recorded := func() int {
			for range 2 * eventsBurst {
				r.Event(&corev1.Pod{}, corev1.EventTypeNormal, "Started", "Container started")
			}
			n := len(fake.Events)
			for range n {
				<-fake.Events
			}
			return n
		}
		if n := recorded(); n != eventsBurst {
			t.Errorf("%d events in a burst, want %d", n, eventsBurst)
		}
		time.Sleep(time.Second)
		if n := recorded(); n != eventsPerSecond {
			t.Errorf("%d events a second later, want %d", n, eventsPerSecond)
		}
	})
}
