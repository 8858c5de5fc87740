package crd

import (
	"context"
	"sync"
)

// instanceGate counts the creations of a definition's resources in progress. After close, no creation can begin, so
// that no resource can appear once the last creation is done.
//
// A definition has one gate from its creation to its removal. A new definition with the same name gets a new gate.
type instanceGate struct {
	ctx    context.Context // ends when the definition is removed
	cancel context.CancelFunc

	mu      sync.Mutex
	creates int           // under way
	drained chan struct{} // made by close; closed when creates is zero
}

func newInstanceGate(parent context.Context) *instanceGate {
	g := &instanceGate{}
	g.ctx, g.cancel = context.WithCancel(parent)
	return g
}

// enter reports whether a creation may begin. If so, the caller must call leave after the creation.
func (g *instanceGate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.drained != nil {
		return false
	}
	g.creates++
	return true
}

// isClosed reports whether close was called.
func (g *instanceGate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.drained != nil
}

func (g *instanceGate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.creates--
	if g.drained != nil && g.creates == 0 {
		close(g.drained)
	}
}

// close closes the gate, and reports whether this call was the first. The returned channel is closed when the last
// creation is done.
func (g *instanceGate) close() (drained <-chan struct{}, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.drained != nil {
		return g.drained, false
	}
	g.drained = make(chan struct{})
	if g.creates == 0 {
		close(g.drained)
	}
	return g.drained, true
}
