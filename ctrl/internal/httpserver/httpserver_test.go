package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns when a request is being served that ends when its connection is closed.
func serve(t *testing.T, ctx context.Context, timeout *time.Duration) (listener net.Listener, served, ended chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{})
	served, ended = make(chan error, 1), make(chan error, 1)
	server := New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		ended <- r.Context().Err()
	}))
	go func() { served <- Serve(ctx, logr.Discard(), server, listener, timeout) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	<-arrived
	return listener, served, ended
}

func TestConnectionsAreClosedAfterTheTimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, served, ended := serve(t, ctx, new(time.Millisecond))
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	<-ended
}

func TestConnectionsAreClosedIfTheListenerFails(t *testing.T) {
	listener, served, ended := serve(t, t.Context(), nil)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
	<-ended
}

// pipes is a listener with connections in memory.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accept:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.closed); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.accept <- server
	return client, nil
}

// TestHTTP2ConnectionsAreClosed stops a server with connections of HTTP/2. One connection may have a
// request that ends later. The stop takes no longer than the request.
func TestHTTP2ConnectionsAreClosed(t *testing.T) {
	for request, want := range map[time.Duration]time.Duration{0: 200 * time.Millisecond, 3 * time.Second: 3600 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			listener := pipes{make(chan net.Conn), make(chan struct{})}
			server := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					<-time.After(request)
				}
				_, _ = w.Write([]byte(r.Proto))
			}))
			server.Protocols = new(http.Protocols)
			server.Protocols.SetUnencryptedHTTP2(true)
			served := make(chan error, 1)
			go func() { served <- Serve(ctx, logr.Discard(), server, listener, nil) }()

			get := func(path string) {
				client := &http.Client{Transport: &http.Transport{Protocols: server.Protocols, DialContext: listener.dial}}
				resp, err := client.Get("http://server" + path)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); string(body) != "HTTP/2.0" || err != nil {
					t.Errorf("got %q, %v", body, err)
				}
			}
			get("/")
			var group sync.WaitGroup
			group.Go(func() { get("/slow") })
			synctest.Wait()
			start := time.Now()
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took > want {
				t.Errorf("with a request of %s the stop took %s", request, took)
			}
			group.Wait()
		})
	}
}
