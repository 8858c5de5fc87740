// Package httpserver runs HTTP servers that shut down gracefully.
package httpserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
)

// New returns a server with the timeouts of all servers of the runtime. Its idle connections do not
// delay its shutdown.
func New(handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, IdleTimeout: 90 * time.Second, ReadHeaderTimeout: 32 * time.Second}
	idle := &idleConnections{timers: map[net.Conn]*time.Timer{}}
	server.ConnState = idle.observe
	server.RegisterOnShutdown(idle.close)
	return server
}

// Serve accepts connections of the listener until ctx ends, and then shuts the server down
// gracefully, within the timeout if it is not nil. It returns an error if the listener fails. When
// it returns, all connections are closed.
func Serve(
	ctx context.Context, logger logr.Logger, server *http.Server, listener net.Listener, timeout *time.Duration,
) error {
	stopped := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(stopped)
		logger.Info("Shutting down server")
		limited, cancel := context.Background(), func() {}
		if timeout != nil {
			limited, cancel = context.WithTimeout(limited, *timeout)
		}
		defer cancel()
		if err := server.Shutdown(limited); err != nil {
			logger.Error(err, "Could not shut down server")
			_ = server.Close()
		}
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		cancel()
		_ = server.Close()
		return err
	}
	<-stopped
	return nil
}
