package controlplane

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/proxy"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// inProcessScheme is the scheme of the proxy by which a WebSocket reaches a control plane in the process. The host is the
// number of a transport in dialable.
const inProcessScheme = "flyball-in-process"

var (
	dialable     sync.Map // of *inProcess, by the number
	lastDialable atomic.Int64
)

// client-go opens a WebSocket without the transport of the configuration, so only the proxy of the configuration can lead
// it to a control plane without a socket.
func init() {
	proxy.RegisterDialerType(inProcessScheme, func(u *url.URL, _ proxy.Dialer) (proxy.Dialer, error) {
		if t, ok := dialable.Load(u.Host); ok {
			return dialer{t.(*inProcess)}, nil
		}
		return nil, errStopped
	})
}

// dialer connects to a control plane in the process.
type dialer struct{ *inProcess }

var _ proxy.ContextDialer = dialer{}

func (d dialer) Dial(_, _ string) (net.Conn, error) { return d.dial() }

func (d dialer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.dial()
}

// errSPDY is the error of a request for an upgrade to SPDY. Of the proxies, client-go's transport for SPDY knows HTTP and SOCKS
// only, and it dials both by TCP.
var errSPDY = errors.New("SPDY cannot reach a control plane without a socket: use remotecommand.NewWebSocketExecutor or " +
	"portforward.NewSPDYOverWebsocketDialer, or a transport with ControlPlane.Dial, as docs/pods.md shows")

// proxy returns the function Proxy of a configuration. It keeps upgraded connections in the process.
func (t *inProcess) proxy() func(*http.Request) (*url.URL, error) {
	t.register.Do(func() {
		number := strconv.FormatInt(lastDialable.Add(1), 10)
		t.url = &url.URL{Scheme: inProcessScheme, Host: number}
		dialable.Store(number, t)
		context.AfterFunc(t.draining, func() { dialable.Delete(number) })
	})
	return func(r *http.Request) (*url.URL, error) {
		if r != nil && r.Header.Get(httpstream.HeaderUpgrade) == spdy.HeaderSpdy31 {
			return nil, errSPDY
		}
		return t.url, nil
	}
}

// dial returns a connection to the handler that has no socket. It speaks HTTP/1.1, so that requests can be upgraded.
func (t *inProcess) dial() (net.Conn, error) {
	if t.inFlight.Add(1) != nil {
		return nil, errStopped
	}
	client, conn := net.Pipe()
	l := &oneListener{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conn <- conn
	s := &http.Server{
		ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if t.inFlight.Add(1) == nil { // or else it is stopping, and the handler refuses the request
				defer t.inFlight.Done()
			}
			r = r.WithContext(t.serverContext(r.Context()))
			r.RemoteAddr = "in-process"
			t.handler.ServeHTTP(w, r)
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				_ = l.Close()
			}
		},
	}
	go func() {
		defer t.inFlight.Done()
		stop := context.AfterFunc(t.draining, func() { _ = s.Close() })
		defer stop()
		_ = s.Serve(l) // ends with the connection
	}()
	return client, nil
}

// oneListener accepts one connection.
type oneListener struct {
	conn   chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *oneListener) Addr() net.Addr { return &net.UnixAddr{Name: "in-process"} }

// isStream reports whether the response to a request may go on for long: a watch, a log that is followed, or the response
// of a proxy.
func isStream(r *http.Request) bool {
	return isWatch(r) || strings.HasSuffix(r.URL.Path, "/log") && strings.Contains(r.URL.RawQuery, "follow=") ||
		strings.Contains(r.URL.Path+"/", "/proxy/")
}

// Dial returns a connection to the API server in the process, for requests in HTTP/1.1 as the administrator. It has no
// socket, so it works in a bubble of testing/synctest. With [http.Transport.DialContext], a client can upgrade requests
// that [rest.Config] does not reach, as for SPDY.
func (c *ControlPlane) Dial(context.Context) (net.Conn, error) { return c.transport.dial() }
