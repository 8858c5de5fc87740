package controller

import (
	"context"
	"fmt"
	"slices"

	"flyball.dev/ctrl/internal/optional"
	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/manager"
)

var (
	_ optional.IdleWaiter[manager.WaitingRequest] = (*controller[string])(nil)
	_ optional.Warmer                             = (*controller[string])(nil)
)

// WaitIdle waits until the controller is started, no request is ready or in process, and no source
// that can say so has events to deliver. It returns the requests that wait, and how many have become
// ready since the start: if two calls return the same number, the controller was idle in between.
// [manager.WaitIdle] calls it. It is Flyball's own.
func (c *controller[request]) WaitIdle(ctx context.Context) (uint64, []manager.WaitingRequest, error) {
	select {
	case <-c.begun:
	case <-ctx.Done():
		return 0, nil, fmt.Errorf("controller %s is not started: %w", c.name, context.Cause(ctx))
	}
	c.mu.Lock()
	s, flushers := c.sources, slices.Clone(c.flushers)
	c.mu.Unlock()
	select {
	case <-s.synced:
	case <-ctx.Done():
		return 0, nil, fmt.Errorf("the sources of controller %s are not in sync: %w", c.name, context.Cause(ctx))
	}
	if s.err != nil {
		return 0, nil, fmt.Errorf("controller %s: %w", c.name, s.err)
	}
	q, ok := s.queue.(queue.IdleWaiter[request])
	if !ok {
		return 0, nil, fmt.Errorf("the queue of controller %s, a %T, has no method WaitIdle", c.name, s.queue)
	}
	for _, f := range flushers {
		if err := f.Flush(ctx); err != nil {
			return 0, nil, fmt.Errorf("controller %s: %s: %w", c.name, describe(f), err)
		}
	}
	adds, waiting, err := q.WaitIdle(ctx)
	if err != nil {
		return 0, nil, fmt.Errorf("controller %s: %w", c.name, err)
	}
	requests := make([]manager.WaitingRequest, len(waiting))
	for i, w := range waiting {
		requests[i] = manager.WaitingRequest{Controller: c.name, Request: w.Key, At: w.At}
	}
	return adds, requests, nil
}
