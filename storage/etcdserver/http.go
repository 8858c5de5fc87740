package etcdserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"flyball.dev/storage"
)

// maxStreams is the largest number of requests and watches of one connection.
const maxStreams = 100_000

// newHTTP returns the HTTP server, which speaks HTTP/1 and, with and without TLS, HTTP/2.
func (s *Server) newHTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: s, Protocols: protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
	}
}

// Serve serves a listener until Stop, and closes it. With a configuration, the connections use TLS.
func (s *Server) Serve(l net.Listener, config *tls.Config) error {
	var err error
	if config == nil {
		err = s.http.Serve(l)
	} else {
		// The server needs HTTP/2 in its own configuration of TLS, and the listeners differ in theirs.
		config = config.Clone()
		config.NextProtos = []string{"h2", "http/1.1"}
		err = s.http.Serve(tls.NewListener(l, config))
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// ServeHTTP serves gRPC over HTTP/2 and, by HTTP, what [Server.Probes] serves.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		s.grpc.ServeHTTP(w, r)
		return
	}
	s.probes.ServeHTTP(w, r)
}

// Probes returns a handler of etcd's health checks and version.
func (s *Server) Probes() http.Handler { return s.probes }

func (s *Server) newProbes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"etcdserver":%q,"etcdcluster":%[2]q,"storage":%[2]q}`, Version, clusterVersion)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := s.healthy(r); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"health":"false","reason":%q}`, err)
			return
		}
		_, _ = io.WriteString(w, `{"health":"true","reason":""}`)
	})
	for _, path := range []string{"GET /livez", "GET /readyz"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if err := s.healthy(r); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = io.WriteString(w, "ok\n")
		})
	}
	return mux
}

// healthy returns nil if the store can be read and probably written.
func (s *Server) healthy(r *http.Request) error {
	if c, ok := s.store.(storage.Checker); ok {
		if err := c.Healthy(); err != nil {
			return err
		}
	}
	_, _, err := s.store.Revisions(r.Context())
	return err
}
