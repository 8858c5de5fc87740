// Package webhook helps the API server call webhooks: it tracks the connections, so that they end with the server, and
// resolves services to addresses.
//
// The endpoint of a simulated pod has the name POD.NAMESPACE.pod.invalid, and [Dialer] connects to such a name by the
// kubelet of the pod, in the process.
package webhook

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// DialFunc connects to an address. Its signature is the signature of [net.Dialer.DialContext].
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// errClosed is returned for dials after Close.
var errClosed = errors.New("the server has stopped")

// Dialer dials webhooks and tracks the connections. The transports of client-go are global to the process and keep idle
// connections for a while; without Close, the connections and their goroutines would outlive the server. A Dialer is
// safe for concurrent use.
type Dialer struct {
	dial DialFunc
	pod  PodDialFunc

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
}

// NewDialer returns a dialer that connects with dial, and to simulated pods with pod. If dial is nil, it uses a
// [net.Dialer] with a timeout of 30 s.
func NewDialer(dial DialFunc, pod PodDialFunc) *Dialer {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return &Dialer{dial: dial, pod: pod, conns: map[*conn]struct{}{}}
}

// DialContext connects to an address. It fails after Close.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialed, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: dialed, dialer: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		dialed.Close()
		return nil, errClosed
	}
	d.conns[c] = struct{}{}
	return c, nil
}

// connect connects to an address, which may be the address of a simulated pod.
func (d *Dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if namespace, pod, port, ok := parsePodAddress(address); ok {
		return d.pod(ctx, namespace, pod, port)
	}
	return d.dial(ctx, network, address)
}

// Close closes all connections. Later dials fail.
func (d *Dialer) Close() {
	d.mu.Lock()
	conns := d.conns
	d.conns, d.closed = nil, true
	d.mu.Unlock()
	for c := range conns {
		c.Conn.Close()
	}
}

// conn is a connection that its dialer tracks.
type conn struct {
	net.Conn
	dialer *Dialer
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.conns, c)
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}

// Authentication returns a resolver that makes the clients of webhooks connect with the dialer.
func (d *Dialer) Authentication(next webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
	with := func(config *rest.Config, err error) (*rest.Config, error) {
		if err != nil {
			return nil, err
		}
		config.Dial = d.DialContext
		return config, nil
	}
	return &webhook.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc: func(hostPort string) (*rest.Config, error) { return with(next.ClientConfigFor(hostPort)) },
		ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
			return with(next.ClientConfigForService(name, namespace, port))
		},
	}
}
