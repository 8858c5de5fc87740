package httpserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
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
