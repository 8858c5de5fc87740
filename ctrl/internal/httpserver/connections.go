package httpserver

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// linger is how long a connection stays open that is idle while the server shuts down, for the client to
// read the last response, and that it is to go away.
const linger = 50 * time.Millisecond

// idleConnections closes the idle connections of a server that shuts down. [http.Server.Shutdown] closes
// connections of HTTP/1 itself, but leaves connections of HTTP/2 open for a second.
type idleConnections struct {
	mu      sync.Mutex
	closing bool
	timers  map[net.Conn]*time.Timer // nil before the shutdown
}

// observe is the ConnState of the server.
func (c *idleConnections) observe(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if timer := c.timers[conn]; timer != nil {
		timer.Stop()
	}
	switch {
	case state != http.StateIdle:
		delete(c.timers, conn)
	case c.closing:
		c.timers[conn] = closeLater(conn)
	default:
		c.timers[conn] = nil
	}
}

// close closes the connections that are idle, and those that will be.
func (c *idleConnections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	for conn := range c.timers {
		c.timers[conn] = closeLater(conn)
	}
}

func closeLater(conn net.Conn) *time.Timer {
	return time.AfterFunc(linger, func() { _ = conn.Close() })
}
