package controller

import (
	"context"
	"sync"
)

// turns let one worker at a time take a request from the queue. Nil lets all of them.
type turns chan struct{}

// turn is the right of one worker to be the only one between the queue and a decision. Nil is always at its end.
type turn struct {
	turns turns
	once  sync.Once
}

// turnKey is the context key of the turn of a reconcile.
type turnKey struct{}

// begin waits for the turn of a worker.
func (t turns) begin() *turn {
	if t == nil {
		return nil
	}
	t <- struct{}{}
	return &turn{turns: t}
}

// end lets the next worker begin.
func (t *turn) end() {
	if t != nil {
		t.once.Do(func() { <-t.turns })
	}
}

// EndTurn ends the turn of the reconcile that ctx belongs to: the next worker of its controller takes a request. It does nothing
// without Options.InTurn, and when the turn has ended already.
func EndTurn(ctx context.Context) {
	t, _ := ctx.Value(turnKey{}).(*turn)
	t.end()
}
