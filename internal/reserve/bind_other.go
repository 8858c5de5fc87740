//go:build !linux

package reserve

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// returned are the ports that were returned a short while ago.
var returned struct {
	mu    sync.Mutex
	ports map[int]time.Time
}

// bind returns a port that nothing listens on.
func bind(address *net.TCPAddr) (int, io.Closer, error) {
	const keep, attempts = 2 * time.Minute, 100
	returned.mu.Lock()
	defer returned.mu.Unlock()
	if returned.ports == nil {
		returned.ports = map[int]time.Time{}
	}
	for port, at := range returned.ports {
		if time.Since(at) > keep {
			delete(returned.ports, port)
		}
	}
	for range attempts {
		listener, err := net.ListenTCP("tcp", address)
		if err != nil {
			return 0, nil, err
		}
		port := listener.Addr().(*net.TCPAddr).Port
		if err := listener.Close(); err != nil {
			return 0, nil, err
		}
		if _, ok := returned.ports[port]; !ok {
			returned.ports[port] = time.Now()
			return port, io.NopCloser(nil), nil
		}
	}
	return 0, nil, errors.New("all ports that the system suggests were returned before")
}
