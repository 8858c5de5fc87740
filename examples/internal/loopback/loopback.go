// Package loopback serves the external systems of the examples, such as a cloud, in the process.
package loopback

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve serves HTTP on a free port of the loopback address, which no other host reaches, until stop
// is called. That closes all connections, and returns when the server has ended.
func Serve(handler http.Handler) (url string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() error {
		err := server.Close()
		if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
			err = errors.Join(err, failed)
		}
		return err
	}, nil
}
