package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"flyball.dev/ctrl/healthz"
	"flyball.dev/ctrl/internal/bubble"
	"flyball.dev/ctrl/internal/httpserver"
	"flyball.dev/ctrl/log"
)

// Server is an HTTP server as a runnable.
type Server struct {
	// Name identifies the server in logs.
	Name string

	// Server is the HTTP server. It is required.
	Server *http.Server

	// Listener accepts the connections. If nil, Start listens on Server.Addr.
	Listener net.Listener

	// OnlyServeWhenLeader makes the server run only in the leader.
	OnlyServeWhenLeader bool

	// ShutdownTimeout limits the graceful shutdown. No limit if nil.
	ShutdownTimeout *time.Duration
}

// NeedLeaderElection reports whether the server runs only in the leader.
func (s *Server) NeedLeaderElection() bool { return s.OnlyServeWhenLeader }

// Start serves until ctx ends, and then shuts down gracefully.
func (s *Server) Start(ctx context.Context) error {
	logger := log.FromContext(ctx)
	if s.Name != "" {
		logger = logger.WithValues("name", s.Name)
	}
	listener := s.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.Server.Addr); err != nil {
			return err
		}
	}
	logger = logger.WithValues("addr", listener.Addr().String())
	logger.Info("Starting server")
	return httpserver.Serve(ctx, logger, s.Server, listener, s.ShutdownTimeout)
}

// listen listens on address, unless that is empty or "0".
func listen(address string) (net.Listener, error) {
	if address == "" || address == "0" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("error listening on %s: %w", address, err)
	}
	return listener, nil
}

// checkBubble returns an error for each option that keeps the bubble of a test from becoming idle.
func (m *manager) checkBubble() error {
	var errs []error
	if m.metrics != nil {
		errs = append(errs, bubble.Check("the metrics server listens", `set Metrics.BindAddress to "0"`))
	}
	if m.healthProbeListener != nil {
		errs = append(errs, bubble.Check("the server of health probes listens", `set HealthProbeBindAddress to "0"`))
	}
	if m.pprof != nil {
		errs = append(errs, bubble.Check("the pprof server listens", `set PprofBindAddress to "0"`))
	}
	return errors.Join(errs...)
}

// closeListeners closes the listeners of New.
func (m *manager) closeListeners() {
	for _, listener := range []net.Listener{m.healthProbeListener, m.pprof} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// addServers adds the servers that are enabled by the options.
func (m *manager) addServers() error {
	if m.metrics != nil {
		if err := m.lifecycle.servers.add(member{run: m.metrics.Start}); err != nil {
			return err
		}
	}
	if m.healthProbeListener != nil {
		mux := http.NewServeMux()
		for path, handler := range map[string]*healthz.Handler{
			m.options.ReadinessEndpointName: {Checks: m.readyz},
			m.options.LivenessEndpointName:  {Checks: m.healthz},
		} {
			mux.Handle(path, http.StripPrefix(path, handler))
			mux.Handle(path+"/", http.StripPrefix(path, handler))
		}
		if err := m.addServer("health probes", mux, m.healthProbeListener); err != nil {
			return err
		}
	}
	if m.pprof != nil {
		mux := http.NewServeMux()
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		if err := m.addServer("pprof", mux, m.pprof); err != nil {
			return err
		}
	}
	return nil
}

// addServer adds a server of the manager. The contexts of its requests end with the server, so that
// a profile or a check that waits does not hold up the end.
func (m *manager) addServer(name string, handler http.Handler, listener net.Listener) error {
	return m.lifecycle.servers.add(member{run: func(ctx context.Context) error {
		server := httpserver.New(handler)
		server.BaseContext = func(net.Listener) context.Context { return ctx }
		return (&Server{Name: name, Server: server, Listener: listener}).Start(ctx)
	}})
}
