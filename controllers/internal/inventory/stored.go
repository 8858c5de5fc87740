package inventory

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/log"
	"flyball.dev/internal/inprocess"
)

// stored serves the monitors of the kinds that an API server in this process stores, by one stream.
type stored struct {
	*Inventory
	observer inprocess.Observer

	// mu is held while handlers are called, so the calls are in order. It may be locked before the mutex of the inventory.
	mu       sync.Mutex
	stream   inprocess.Stream // nil before it is opened, and while it is lost
	monitors map[schema.GroupResource]*monitor
}

// groupResource returns the name of a resource in the stream.
func (r Resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Kind.Group, Resource: r.Plural}
}

// start starts the monitor of a kind. Without a stream, its objects are listed when there is one.
func (s *stored) start(ctx context.Context, r Resource) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &monitor{Resource: r, streamed: true, stopped: make(chan struct{})}
	s.setUnsynced(m)
	m.remove = func(context.Context) error { s.stop(m); return nil }
	if s.stream != nil {
		if err := s.list(ctx, m); err != nil {
			return err
		}
	}
	s.monitors[r.groupResource()] = m
	s.Inventory.mu.Lock()
	defer s.Inventory.mu.Unlock()
	s.Inventory.monitors[r.Kind.GroupKind()] = m
	return nil
}

// list adds the kind of a monitor to the stream, with its present objects. The caller holds the lock.
func (s *stored) list(ctx context.Context, m *monitor) error {
	for _, h := range s.handlers {
		h.MonitorStarted(m.Resource)
	}
	gvr := m.Kind.GroupVersion().WithResource(m.Plural)
	err := s.stream.Add(ctx, gvr, func(obj *metav1.PartialObjectMetadata) { s.updated(m.Resource, obj) })
	if err != nil {
		return fmt.Errorf("%s: %w", m.Kind, err)
	}
	close(m.listed)
	m.listed = nil
	for _, h := range s.handlers {
		h.MonitorSynced(m.Resource)
	}
	return nil
}

// setUnsynced says that the objects of a kind are not known. The caller holds the lock.
func (s *stored) setUnsynced(m *monitor) {
	if m.listed != nil {
		return
	}
	m.listed = make(chan struct{})
	s.Inventory.mu.Lock()
	defer s.Inventory.mu.Unlock()
	m.synced = m.listed
}

// stop removes a monitor from the stream.
func (s *stored) stop(m *monitor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := m.groupResource()
	if s.monitors[r] != m {
		return // another kind has the name of the resource now
	}
	delete(s.monitors, r)
	if s.stream != nil {
		s.stream.Remove(r)
	}
}

// run passes on the changes until ctx ends. When the stream is lost, run opens another one and lists all kinds again.
func (s *stored) run(ctx context.Context) {
	const minBackoff, maxBackoff = 10 * time.Millisecond, 5 * time.Second
	backoff := minBackoff
	for {
		opened := time.Now()
		err := s.follow(ctx)
		s.close()
		if ctx.Err() != nil {
			return
		}
		if time.Since(opened) > maxBackoff {
			backoff = minBackoff
		}
		log.FromContext(ctx).V(1).Info("The changes of stored objects were lost; listing all kinds again", "after", backoff, "reason", err.Error())
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// follow opens the stream, and passes on its changes until it ends.
func (s *stored) follow(ctx context.Context) error {
	stream, err := s.observer.Observe(ctx)
	if err != nil {
		return err
	}
	s.open(ctx, stream)
	for {
		more, err := s.next(ctx)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-stream.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open begins with a stream, and lists the kinds of all monitors.
func (s *stored) open(ctx context.Context, stream inprocess.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = stream
	for _, m := range s.monitors {
		if err := s.list(ctx, m); err != nil {
			s.drop(ctx, m, err)
		}
	}
}

// next passes on the next changes.
func (s *stored) next(ctx context.Context) (more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Next(ctx, func(c inprocess.Change) {
		m := s.monitors[c.Resource]
		switch {
		case m == nil:
		case c.Err != nil:
			s.drop(ctx, m, c.Err)
		case c.Deleted:
			s.deleted(m.Resource, c.Object)
		default:
			s.updated(m.Resource, c.Object)
		}
	})
}

// drop removes a monitor after an error. Another discovery starts the next one. The caller holds the lock.
func (s *stored) drop(ctx context.Context, m *monitor, err error) {
	log.FromContext(ctx).V(1).Info("The changes of a kind were lost; listing it again", "kind", m.Kind, "reason", err.Error())
	delete(s.monitors, m.groupResource())
	s.forget(m)
	s.discoverAgain()
}

// close ends the stream. The objects of its kinds are not known for certain until there is another one.
func (s *stored) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil {
		return
	}
	s.stream.Close()
	s.stream = nil
	for _, m := range s.monitors {
		s.setUnsynced(m)
	}
}
