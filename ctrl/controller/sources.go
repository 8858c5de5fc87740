package controller

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/internal/optional"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/source"
)

// eventSources are the started sources of a controller: their queue and whether they are in sync.
type eventSources[request comparable] struct {
	ctx    context.Context // the sources run until it is done
	queue  workqueue.TypedRateLimitingInterface[request]
	synced chan struct{} // closed when every source is in sync or one has failed
	err    error         // set before synced is closed
}

func (c *controller[request]) Watch(src source.TypedSource[request]) error {
	if reflectutil.IsNil(src) {
		return fmt.Errorf("controller %s must watch a non-nil source", c.name)
	}
	c.mu.Lock()
	s := c.sources
	if s == nil {
		c.pending = append(c.pending, src)
	} else {
		c.keepFlushers(src)
	}
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	c.GetLogger().Info("Starting EventSource", "source", describe(src))
	return src.Start(s.ctx, s.queue)
}

// startSources starts the sources, unless they are started, and returns their queue when they are
// in sync. The sources run, and the queue is open, until the context of the first call is done.
func (c *controller[request]) startSources(ctx context.Context) (workqueue.TypedRateLimitingInterface[request], error) {
	c.mu.Lock()
	if s := c.sources; s != nil {
		c.mu.Unlock()
		select {
		case <-s.synced:
			return s.queue, s.err
		case <-ctx.Done():
			return s.queue, nil
		}
	}
	s := &eventSources[request]{ctx: ctx, synced: make(chan struct{})}
	s.queue = c.options.NewQueue(c.name, c.options.RateLimiter)
	if s.queue == nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("NewQueue of controller %s must return a non-nil queue", c.name)
	}
	sources := c.pending
	c.sources, c.pending = s, nil
	c.keepFlushers(sources...)
	close(c.begun)
	c.mu.Unlock()

	context.AfterFunc(ctx, s.queue.ShutDown)
	defer close(s.synced)
	var all errgroup.Group
	for _, src := range sources {
		all.Go(func() error { return c.startSource(ctx, src, s.queue) })
	}
	s.err = all.Wait()
	return s.queue, s.err
}

// keepFlushers keeps the started sources that WaitIdle needs. The others are not kept, as a cache that
// has ended may be in them. The caller holds mu.
func (c *controller[request]) keepFlushers(sources ...source.TypedSource[request]) {
	for _, src := range sources {
		if f, ok := src.(optional.Flusher); ok {
			c.flushers = append(c.flushers, f)
		}
	}
}

// startSource starts one source and, if it is a TypedSyncingSource, waits until it is in sync.
func (c *controller[request]) startSource(
	ctx context.Context,
	src source.TypedSource[request],
	queue workqueue.TypedRateLimitingInterface[request],
) error {
	logger := c.GetLogger().WithValues("source", describe(src))
	logger.Info("Starting EventSource")
	limited, cancel := context.WithTimeout(ctx, c.options.CacheSyncTimeout)
	defer cancel()

	// The source runs until ctx is done, but Start has to return within CacheSyncTimeout.
	begun := make(chan error, 1)
	go func() { begun <- src.Start(ctx, queue) }()
	select {
	case err := <-begun:
		if err != nil {
			return err
		}
	case <-limited.Done():
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("timed out waiting for source %s to Start. "+
			"Please ensure that its Start() method is non-blocking", describe(src))
	}

	syncing, ok := src.(source.TypedSyncingSource[request])
	if !ok {
		return nil
	}
	if err := syncing.WaitForSync(limited); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		err = fmt.Errorf("failed to wait for %s caches to sync %s: %w", c.name, describe(src), err)
		logger.Error(err, "Could not wait for Cache to sync")
		return err
	}
	return nil
}

// describe returns the name of a source for logs and errors.
func describe(src any) string {
	if s, ok := src.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", src)
}
