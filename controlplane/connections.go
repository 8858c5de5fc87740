package controlplane

import (
	"maps"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections are those of a server that have a request which is not yet answered to its last byte. The
// handler of a request has returned before that.
type connections struct {
	mu      sync.Mutex
	active  map[net.Conn]struct{}
	leaving map[net.Conn]struct{} // those that were active when the server began to stop
	changed chan struct{}
}

func newConnections() *connections {
	return &connections{active: map[net.Conn]struct{}{}, changed: make(chan struct{}, 1)}
}

// follow is an [http.Server.ConnState].
func (c *connections) follow(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		c.active[conn] = struct{}{}
		return
	case http.StateClosed, http.StateHijacked:
		delete(c.leaving, conn)
	}
	delete(c.active, conn)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// idle tells whether no connection is active.
func (c *connections) idle() bool { return len(c.active) == 0 }

// answered returns what tells whether all that are active now have been closed.
func (c *connections) answered() func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving = maps.Clone(c.active)
	return func() bool { return len(c.leaving) == 0 }
}

// wait returns when condition holds, which is asked under the lock, or after a time.
func (c *connections) wait(most time.Duration, condition func() bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		c.mu.Lock()
		holds := condition()
		c.mu.Unlock()
		if holds {
			return
		}
		select {
		case <-c.changed:
		case <-timer.C:
			return
		}
	}
}
