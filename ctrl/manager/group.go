package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

var errStopping = errors.New("can't accept new runnable as stop procedure is already engaged")

// member is a runnable in a group.
type member struct {
	run    func(context.Context) error
	synced func(context.Context) bool // waits until the member is ready; nil if it is ready at once
}

// group is a phase in which runnables run concurrently.
type group struct {
	name   string
	base   func() context.Context
	failed func(error)

	mu      sync.Mutex
	ctx     context.Context // of the runnables; nil until the group starts
	cancel  context.CancelFunc
	stopped bool
	members []member // those to be started with the group
	running sync.WaitGroup
}

func (g *group) String() string { return g.name }

// add adds m. It starts at once if the group runs, and otherwise with the group. If it then does
// not sync, the manager ends, as it does for those that start with the group.
func (g *group) add(m member) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.stopped:
		return errStopping
	case g.ctx == nil:
		g.members = append(g.members, m)
	default:
		g.run(m)
		if m.synced != nil {
			g.running.Go(func() {
				if !m.synced(g.ctx) && g.ctx.Err() == nil {
					g.failed(g.notSynced())
				}
			})
		}
	}
	return nil
}

func (g *group) notSynced() error { return fmt.Errorf("%s did not sync", g.name) }

// run must be called with the lock held.
func (g *group) run(m member) {
	g.running.Go(func() {
		if err := m.run(g.ctx); err != nil {
			g.failed(err)
		}
	})
}

func (g *group) start(ctx context.Context) error {
	g.mu.Lock()
	g.ctx, g.cancel = context.WithCancel(g.base())
	members := g.members
	g.members = nil
	for _, m := range members {
		g.run(m)
	}
	g.mu.Unlock()
	for _, m := range members {
		if m.synced != nil && !m.synced(ctx) && ctx.Err() == nil {
			return g.notSynced()
		}
	}
	return nil
}

func (g *group) stop(ctx context.Context) {
	g.mu.Lock()
	g.stopped = true
	g.members = nil
	cancel := g.cancel
	g.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	over := make(chan struct{})
	go func() {
		g.running.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
}
