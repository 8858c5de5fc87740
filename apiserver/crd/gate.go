package crd

import "sync"

// gate counts the creations of custom resources that are under way. Once shut it lets no more in, so
// that after the last one has left no resource can appear.
type gate struct {
	mu      sync.Mutex
	inside  int
	drained chan struct{} // made by shut; closed when nobody is inside
}

// enter reports whether a creation may begin; if so, leave must be called at its end.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.drained != nil {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.drained != nil && g.inside == 0 {
		close(g.drained)
	}
}

// shut closes the gate for good, and reports whether this call did. The channel it returns is closed
// when the last creation has left.
func (g *gate) shut() (drained <-chan struct{}, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.drained != nil {
		return g.drained, false
	}
	g.drained = make(chan struct{})
	if g.inside == 0 {
		close(g.drained)
	}
	return g.drained, true
}
