package controller

import (
	"context"
	"sync"
)

// turns is a semaphore of one: its holder takes a request and decides. A nil turns does not limit workers.
type turns chan struct{}

// turn is a worker's hold of turns. A nil turn has ended.
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
