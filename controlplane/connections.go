package controlplane

import (
	"maps"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections tracks the active connections of an HTTP server. A connection is active until the last byte of the
// response is written, which happens after the handler has returned.
type connections struct {
	mu      sync.Mutex
	active  map[net.Conn]struct{}
	closing map[net.Conn]struct{} // the connections that were active when activeClosed was called
	changed chan struct{}         // has a value after a connection has ceased to be active
}

func newConnections() *connections {
	return &connections{active: map[net.Conn]struct{}{}, changed: make(chan struct{}, 1)}
}

// stateChanged is an [http.Server.ConnState].
func (c *connections) stateChanged(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		c.active[conn] = struct{}{}
		return
	case http.StateClosed, http.StateHijacked:
		delete(c.closing, conn)
	}
	delete(c.active, conn)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// idle reports whether no connection is active. It is a condition for wait.
func (c *connections) idle() bool { return len(c.active) == 0 }

// activeClosed returns a condition for wait: all currently active connections are closed.
func (c *connections) activeClosed() func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = maps.Clone(c.active)
	return func() bool { return len(c.closing) == 0 }
}

// wait waits until the condition holds, but not longer than the timeout. It calls the condition with the lock held.
func (c *connections) wait(timeout time.Duration, condition func() bool) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		c.mu.Lock()
		ok := condition()
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-c.changed:
		case <-timer.C:
			return
		}
	}
}
