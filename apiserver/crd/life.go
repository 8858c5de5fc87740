package crd

import (
	"context"
	"sync"
)

// life is a definition from its creation to its removal; one that is made again under the same name
// has another. It knows how many creations of resources are under way, and once it is closed lets no
// more begin, so that after the last of them no resource can appear.
type life struct {
	ctx context.Context // ends when the definition has gone
	end context.CancelFunc

	mu      sync.Mutex
	inside  int
	drained chan struct{} // made by shut; closed when nobody is inside
}

func newLife(parent context.Context) *life {
	l := &life{}
	l.ctx, l.end = context.WithCancel(parent)
	return l
}

// enter reports whether a creation may begin; if so, leave must be called at its end.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drained != nil {
		return false
	}
	l.inside++
	return true
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside--
	if l.drained != nil && l.inside == 0 {
		close(l.drained)
	}
}

// shut lets no more creations begin, and reports whether this call was the first. The channel it
// returns is closed when the last creation has left.
func (l *life) shut() (drained <-chan struct{}, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drained != nil {
		return l.drained, false
	}
	l.drained = make(chan struct{})
	if l.inside == 0 {
		close(l.drained)
	}
	return l.drained, true
}
