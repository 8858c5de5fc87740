package apiserver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"flyball.dev/storage"
)

// resetGrace is how long Reset waits for the requests in flight before it cancels them. Only requests that wait for
// webhooks usually take longer.
const resetGrace = 20 * time.Millisecond

// errReset is the cancellation cause of requests that Reset ends.
var errReset = errors.New("the server was reset")

var errNotResettable = errors.New("the storage does not support a reset: only the storage in memory does")

// Checkpoint saves the current state for [Server.Reset].
func (s *Server) Checkpoint() error {
	store, ok := s.options.Storage.(storage.Resetter)
	if !ok {
		return errNotResettable
	}
	return s.gate.exclude(func() error {
		// The APIServices and resources that follow from the definitions are created in the background, and belong to
		// the state.
		if err := s.background.RegisterVersions(); err != nil {
			return err
		}
		s.custom.Checkpoint()
		return store.Checkpoint()
	})
}

// Reset returns to the state of the last Checkpoint. Requests that begin during Reset wait. Reset cancels requests in
// flight that take longer than a few milliseconds, such as requests that wait for a webhook; they have no effect on the
// state. Watches end with the error 410 Gone. Resource versions rise. Reset is safe for concurrent use.
func (s *Server) Reset() error {
	store, ok := s.options.Storage.(storage.Resetter)
	if !ok {
		return errNotResettable
	}
	return s.gate.exclude(func() error {
		return s.custom.Reset(func() error {
			if err := store.Reset(); err != nil {
				return err
			}
			s.resets.call()
			return nil
		})
	})
}

// resets has the functions that forget what follows from the objects. It is safe for concurrent use.
type resets struct {
	mu        sync.Mutex
	functions []func()
}

func (r *resets) add(reset func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.functions = append(r.functions, reset)
}

// call calls all functions.
func (r *resets) call() {
	r.mu.Lock()
	functions := slices.Clone(r.functions)
	r.mu.Unlock()
	for _, reset := range functions {
		reset()
	}
}

// exclusive calls f, a background write, while the server is not being reset.
func (s *Server) exclusive(f func()) {
	_, leave, err := s.gate.enter(s.stopping)
	if err != nil {
		return
	}
	defer leave()
	f()
}

// gate counts the requests in flight, and holds back new ones while the server is being reset. The zero value is an
// open gate.
type gate struct {
	excluding sync.Mutex // held during exclude

	mu     sync.Mutex
	inside int
	closed chan struct{} // while it is closed; closed when it opens
	empty  chan struct{} // while it is closed; closed when nobody is inside
	// epoch is done when exclude begins, and is cancelled when the requests of the epoch have to end. It is nil before
	// the first exclude, so that servers without resets do not pay for it.
	epoch *epoch
}

// epoch is the time between two calls of exclude.
type epoch struct {
	done   chan struct{}
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func newEpoch() *epoch {
	e := &epoch{done: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	return e
}

// open waits until the gate is open and returns with the lock held. If ctx ends first, open returns its error.
func (g *gate) open(ctx context.Context) error {
	for {
		g.mu.Lock()
		closed := g.closed
		if closed == nil {
			return nil
		}
		g.mu.Unlock()
		select {
		case <-closed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// enter waits until the gate is open and returns the context for a request. The request must call leave when it is
// finished. If ctx ends first, enter returns its error.
func (g *gate) enter(ctx context.Context) (inside context.Context, leave func(), err error) {
	if err := g.open(ctx); err != nil {
		return nil, nil, err
	}
	g.inside++
	e := g.epoch
	g.mu.Unlock()
	if e == nil {
		return ctx, g.leave, nil
	}
	ctx, cancel := context.WithCancelCause(storage.WithFence(ctx, e.done))
	unhook := context.AfterFunc(e.ctx, func() { cancel(errReset) })
	return ctx, func() {
		unhook()
		cancel(nil)
		g.leave()
	}, nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// fence returns the context for a long-running request. The request may stay inside while the gate is closed, but
// operations that it begins afterwards fail.
func (g *gate) fence(ctx context.Context) context.Context {
	if g.open(ctx) != nil {
		return ctx // which has ended
	}
	defer g.mu.Unlock()
	if g.epoch == nil {
		return ctx
	}
	return storage.WithFence(ctx, g.epoch.done)
}

// exclude closes the gate, calls f when no request is inside, and opens the gate. It cancels requests that do not end
// by themselves.
func (g *gate) exclude(f func() error) error {
	g.excluding.Lock()
	defer g.excluding.Unlock()
	g.mu.Lock()
	g.closed = make(chan struct{})
	var empty chan struct{}
	if g.inside > 0 {
		empty = make(chan struct{})
		g.empty = empty
	}
	e := g.epoch
	g.mu.Unlock()

	if empty != nil {
		grace := time.NewTimer(resetGrace)
		defer grace.Stop()
		select {
		case <-empty:
		case <-grace.C:
			if e != nil {
				e.cancel(errReset)
			}
			<-empty
		}
	}
	if e != nil {
		close(e.done)
		e.cancel(errReset)
	}
	err := f()

	g.mu.Lock()
	defer g.mu.Unlock()
	g.epoch = newEpoch()
	close(g.closed)
	g.closed = nil
	return err
}
