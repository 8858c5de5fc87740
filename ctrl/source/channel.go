package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/optional"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

const defaultBufferSize = 1024

// ChannelOpt changes a channel source.
type ChannelOpt[object any, request comparable] func(*channel[object, request])

// WithPredicates filters the events. An event must pass the predicates of all such options.
func WithPredicates[object any, request comparable](p ...predicate.TypedPredicate[object]) ChannelOpt[object, request] {
	return func(c *channel[object, request]) { c.predicates = append(c.predicates, p...) }
}

// WithBufferSize sets how many events are buffered for the handler before the source stops
// receiving from the channel. The default is 1024.
func WithBufferSize[object any, request comparable](bufferSize int) ChannelOpt[object, request] {
	return func(c *channel[object, request]) { c.bufferSize = bufferSize }
}

// Channel is a source of the events that are sent on a channel, until the channel is closed. If the
// source is started more than once, as by several controllers, every event is passed to each of
// them; receiving ends with the context of the first start.
func Channel[object any](
	source <-chan event.TypedGenericEvent[object],
	handler handler.TypedEventHandler[object, reconcile.Request],
	opts ...ChannelOpt[object, reconcile.Request],
) Source {
	return TypedChannel(source, handler, opts...)
}

// TypedChannel is Channel for requests of any type.
func TypedChannel[object any, request comparable](
	source <-chan event.TypedGenericEvent[object],
	handler handler.TypedEventHandler[object, request],
	opts ...ChannelOpt[object, request],
) TypedSource[request] {
	c := &channel[object, request]{source: source, handler: handler, bufferSize: defaultBufferSize,
		flush: make(chan struct{})}
	for _, opt := range opts {
		opt(c)
	}
	return c
}

// channel is a source of the generic events of a Go channel.
type channel[object any, request comparable] struct {
	source     <-chan event.TypedGenericEvent[object]
	handler    handler.TypedEventHandler[object, request]
	predicates []predicate.TypedPredicate[object]
	bufferSize int

	flush chan struct{} // received from by distribute while it has no event

	mu          sync.Mutex
	running     bool
	stopped     chan struct{} // closed when distribute has returned
	subscribers []subscriber[object]
}

// subscriber is one start of the source: events are added to its buffer until its context is done.
type subscriber[object any] struct {
	ctx    context.Context
	buffer chan event.TypedGenericEvent[object]
	flush  chan struct{} // received from by handle while it has no event
}

// Start implements TypedSource.
func (c *channel[object, request]) Start(
	ctx context.Context, queue workqueue.TypedRateLimitingInterface[request],
) error {
	if c.source == nil {
		return errors.New("must specify Channel.Source")
	}
	if reflectutil.IsNil(c.handler) {
		return errors.New("must specify Channel.Handler")
	}
	if slices.ContainsFunc(c.predicates, isNil[object]) {
		return errors.New("must specify non-nil predicates of Channel")
	}
	s := subscriber[object]{ctx, make(chan event.TypedGenericEvent[object], c.bufferSize), make(chan struct{})}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, s)
	if !c.running {
		c.running, c.stopped = true, make(chan struct{})
		go c.distribute(ctx)
	}
	go c.handle(s, queue)
	return nil
}

// distribute passes events to all subscribers until ctx is done or the channel is closed.
func (c *channel[object, request]) distribute(ctx context.Context) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.subscribers {
			close(s.buffer)
		}
		c.subscribers, c.running = nil, false
		close(c.stopped)
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.flush:
		case e, open := <-c.source:
			if !open {
				return
			}
			c.mu.Lock()
			subscribers := c.subscribers
			c.mu.Unlock()
			for _, s := range subscribers {
				select {
				case s.buffer <- e:
				case <-s.ctx.Done():
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// handle calls the handler for the buffered events until the source ends.
func (c *channel[object, request]) handle(
	s subscriber[object], queue workqueue.TypedRateLimitingInterface[request],
) {
	filter := predicate.And(c.predicates...)
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.flush:
		case e, open := <-s.buffer:
			if !open {
				return
			}
			if filter.Generic(e) {
				c.handler.Generic(s.ctx, e,
					withCause(queue, cause.Generic, nil, e.Object, e.Object))
			}
		}
	}
}

var _ optional.Flusher = (*channel[any, string])(nil)

// Flush waits until the handlers have returned from all events that were received from the channel,
// or are in its buffer. It returns nil if the source has ended. WaitIdle of a controller calls it.
func (c *channel[object, request]) Flush(ctx context.Context) error {
	for {
		c.mu.Lock()
		running, stopped := c.running, c.stopped
		c.mu.Unlock()
		if !running {
			return nil
		}
		select {
		case c.flush <- struct{}{}: // what distribute has received is in the buffers
		case <-stopped:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		c.mu.Lock()
		subscribers := c.subscribers
		c.mu.Unlock()
		idle := len(c.source) == 0
		for _, s := range subscribers {
			select {
			case s.flush <- struct{}{}: // the handler has returned
			case <-s.ctx.Done():
			case <-stopped:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			idle = idle && (len(s.buffer) == 0 || s.ctx.Err() != nil)
		}
		if idle {
			return nil
		}
	}
}

// String names the source in logs.
func (c *channel[object, request]) String() string {
	return fmt.Sprintf("channel source: %p", c)
}
