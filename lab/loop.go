package lab

import (
	"context"
	"slices"
	"time"

	"flyball.dev/internal/inprocess"
)

// A reconcile that reads its cache alone sends no request, so it is no action. Its controller tells the lab of it. A request is in a loop
// if it is reconciled loopReconciles times within loopWithin, and nothing changes meanwhile.
const (
	loopReconciles = 1000
	loopWithin     = 10 * time.Second
)

// loopOf identifies the reconciles of a request.
type loopOf struct {
	process    *process
	controller string
	request    any
}

// loop counts the reconciles of a request since a time.
type loop struct {
	n     int
	since time.Duration
}

var _ inprocess.Reconciles = (*process)(nil)

// Reconciled implements inprocess.Reconciles. A controller in a loop waits here until the run ends.
func (p *process) Reconciled(ctx context.Context, controller string, request any) {
	w := p.world
	if p.cluster || slices.Contains(w.scenario.Without, hotLoop) || !w.isLooping(loopOf{p, controller, request}) {
		return
	}
	w.wake()
	<-ctx.Done()
}

// isLooping counts a reconcile, and reports whether it belongs to a loop.
func (w *world) isLooping(of loopOf) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	l := w.loops[of]
	if l == nil || now-l.since > loopWithin {
		l = &loop{since: now}
		w.loops[of] = l
	}
	if l.n++; l.n < loopReconciles {
		return false
	}
	w.find(hotLoop, "the controller %s of %s has reconciled %v %d times in %v, and nothing has changed: it must wait for an event or for longer",
		of.controller, of.process.name, of.request, l.n, now-l.since)
	return true
}

// endLoops forgets the reconciles so far, because something has changed.
func (w *world) endLoops() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.loops)
}
