package controller

import (
	"context"
	"sync"
)

// turns is a semaphore of one: its holder takes a request and decides. A worker that comes may overtake one that waits, since workers are
// alike. A channel hands over to the worker that waits, and so does a sync.Mutex after a millisecond: then no worker decides until that
// one runs (BenchmarkScheduler of controllers/scheduler). A nil turns does not limit workers.
type turns struct {
	mu    sync.Mutex
	free  sync.Cond
	taken bool
}

func newTurns() *turns {
	t := &turns{}
	t.free.L = &t.mu
	return t
}

// begin waits for the turn of a worker. A nil turn has ended.
func (t *turns) begin() *turn {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.taken {
		t.free.Wait()
	}
	t.taken = true
	return &turn{turns: t}
}

// release lets the next worker begin.
func (t *turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
	t.free.Signal()
}

// turn is a worker's hold of turns.
type turn struct {
	turns *turns
	once  sync.Once
}

// end ends the turn. Only the first call has an effect.
func (t *turn) end() {
	if t != nil {
		t.once.Do(t.turns.release)
	}
}

// turnKey is the context key of the turn of a reconcile.
type turnKey struct{}

// EndTurn ends the turn of the reconcile that ctx belongs to: the next worker of its controller takes a request. It does nothing
// without Options.InTurn, and when the turn has ended already.
func EndTurn(ctx context.Context) {
	t, _ := ctx.Value(turnKey{}).(*turn)
	t.end()
}
