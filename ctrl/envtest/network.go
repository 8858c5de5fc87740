package envtest

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// memoryNetwork connects clients and servers in the process, without sockets. It is safe for
// concurrent use.
type memoryNetwork struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener // by address
}

func newMemoryNetwork() *memoryNetwork {
	return &memoryNetwork{listeners: map[string]*memoryListener{}}
}

// listen returns a listener at an address, instead of one that listens there already.
func (n *memoryNetwork) listen(address string) *memoryListener {
	l := &memoryListener{network: n, address: address, accept: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[address] = l
	return l
}

// DialContext connects to a listener.
func (n *memoryNetwork) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s %s: connection refused: nothing listens there in memory", network, address)
	}
	return l.dial(ctx, network)
}

// memoryListener accepts connections that are dialed in the process.
type memoryListener struct {
	network *memoryNetwork
	address string
	accept  chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *memoryListener) dial(ctx context.Context, network string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.accept <- server:
		return client, nil
	case <-l.closed:
		return nil, fmt.Errorf("dial %s %s: connection refused: the listener is closed", network, l.address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// DialContext connects to the listener. A webhook server uses it to check itself.
func (l *memoryListener) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return l.network.DialContext(ctx, network, address)
}

// Accept implements net.Listener.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *memoryListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		if l.network.listeners[l.address] == l {
			delete(l.network.listeners, l.address)
		}
	})
	return nil
}

// Addr implements net.Listener.
func (l *memoryListener) Addr() net.Addr { return memoryAddr(l.address) }

// memoryAddr is the address of a listener in memory.
type memoryAddr string

// Network implements net.Addr.
func (memoryAddr) Network() string { return "memory" }

// String implements net.Addr.
func (a memoryAddr) String() string { return string(a) }
