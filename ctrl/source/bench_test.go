package source

import (
	"testing"

	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/reconcile"
)

// BenchmarkEvent is the way of an event to a worker: an update is delivered, and the request taken
// and done.
func BenchmarkEvent(b *testing.B) {
	q := priorityqueue.New[reconcile.Request]("event benchmark")
	defer q.ShutDown()
	d := newDelivery(b.Context(), q, nil, handler.EventHandler(&handler.EnqueueRequestForObject{}), nil)
	before, after := pod("1"), pod("2")
	b.ReportAllocs()
	for b.Loop() {
		d.OnUpdate(before, after)
		req, _ := q.Get()
		q.Done(req)
	}
}
