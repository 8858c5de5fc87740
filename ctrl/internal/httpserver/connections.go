package httpserver

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// linger is how long an idle connection stays open while the server shuts down, for the client to read
// that it is to go away.
const linger = 50 * time.Millisecond

// idleConnections are the connections of a server that serve no request. [http.Server.Shutdown] closes
// those of HTTP/1 at once, but leaves those of HTTP/2 open for a second.
type idleConnections struct {
	mu  sync.Mutex
	all map[net.Conn]bool
}

// observe returns the idle connections of a server that does not serve yet.
func observe(server *http.Server) *idleConnections {
	c := &idleConnections{all: map[net.Conn]bool{}}
	next := server.ConnState
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		c.set(conn, state == http.StateIdle)
		if next != nil {
			next(conn, state)
		}
	}
	return c
}

func (c *idleConnections) set(conn net.Conn, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if idle {
		c.all[conn] = true
	} else {
		delete(c.all, conn)
	}
}

func (c *idleConnections) close() {
	c.mu.Lock()
	idle := slices.Collect(maps.Keys(c.all))
	c.mu.Unlock()
	for _, conn := range idle {
		_ = conn.Close()
	}
}
