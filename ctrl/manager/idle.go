package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/internal/optional"
)

// WaitingRequest is a request that a controller is going to reconcile later, because of the
// RequeueAfter of its last result or after an error. It is Flyball's own.
type WaitingRequest struct {
	// Controller is the name of the controller.
	Controller string
	// Request is a reconcile.Request, or whatever type the controller has.
	Request any
	// At is when the request is added to the queue.
	At time.Time
}

// WaitIdle waits until the manager has nothing to do: in all its controllers no request is ready or
// being reconciled, and no event of a write is on its way that was made before the call, by the
// controllers or anybody else. It is meant for tests, in place of polling for a result.
//
// Requests that wait for their RequeueAfter, or for a retry after an error, do not count; they are
// returned in the order of their times. In virtual time, a test can go on there.
//
// What counts are the controllers of this manager and the caches of the manager and of the clusters
// that were added to it. A write of somebody else that is made in reaction to the writes of the
// controllers, such as of the control plane's own controllers, or of a controller in another
// manager, may come later. Events of a source.Channel count from when they were received from the
// channel, or are in its buffer; events of other sources do not.
//
// The resource version that each cache has to reach is read from the API server. Flyball's server
// then sends a bookmark on the open watches. With another server, a cache has reached it when it has
// the objects of a live list; the events of an object that was created and deleted again before that
// list may still be on their way.
//
// If the manager is not started yet, or waits for the leader election, WaitIdle waits until its
// controllers run. It returns an error if ctx ends first, if the manager stops, if the API server
// cannot be asked, if a controller has a queue of its own (NewQueue) that cannot say whether it is
// idle, and if mgr, which New has not returned, has no method WaitIdle.
//
// It is Flyball's own, and safe for concurrent use.
func WaitIdle(ctx context.Context, mgr Manager) ([]WaitingRequest, error) {
	m, ok := mgr.(interface {
		WaitIdle(context.Context) ([]WaitingRequest, error)
	})
	if !ok {
		return nil, fmt.Errorf("%T has no method WaitIdle", mgr)
	}
	return m.WaitIdle(ctx)
}

// awaited is a controller that WaitIdle waits for.
type awaited = optional.IdleWaiter[WaitingRequest]

// WaitIdle is the method behind the function [WaitIdle].
func (m *manager) WaitIdle(ctx context.Context) ([]WaitingRequest, error) {
	for {
		controllers, caches, err := m.awaitedNow()
		if err != nil {
			return nil, err
		}
		before, _, err := waitAll(ctx, controllers)
		if err != nil {
			return nil, err
		}
		for _, c := range caches {
			if err := c.WaitDelivered(ctx); err != nil {
				return nil, fmt.Errorf("the manager is not idle: %w", err)
			}
		}
		// If no request became ready since, nothing was reconciled while the caches were asked, and
		// what was delivered has caused nothing.
		after, waiting, err := waitAll(ctx, controllers)
		if err != nil {
			return nil, err
		}
		now, _, err := m.awaitedNow()
		if err != nil {
			return nil, err
		}
		if slices.Equal(before, after) && len(now) == len(controllers) {
			return waiting, nil
		}
	}
}

// awaitedNow returns the controllers and the caches.
func (m *manager) awaitedNow() (controllers []awaited, caches []optional.Deliverer, err error) {
	m.mu.Lock()
	controllers = slices.Clone(m.awaited)
	all := append([]cache.Cache{m.GetCache()}, m.clusterCaches...)
	m.mu.Unlock()
	for _, c := range all {
		d, ok := c.(optional.Deliverer)
		if !ok {
			return nil, nil, fmt.Errorf("the cache %T has no method WaitDelivered", c)
		}
		caches = append(caches, d)
	}
	return controllers, caches, nil
}

// waitAll waits until each controller was idle once.
func waitAll(ctx context.Context, controllers []awaited) (adds []uint64, waiting []WaitingRequest, err error) {
	for _, c := range controllers {
		n, w, err := c.WaitIdle(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("the manager is not idle: %w", err)
		}
		adds, waiting = append(adds, n), append(waiting, w...)
	}
	slices.SortStableFunc(waiting, func(a, b WaitingRequest) int { return a.At.Compare(b.At) })
	return adds, waiting, nil
}
