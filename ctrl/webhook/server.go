package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/healthz"
	"flyball.dev/ctrl/internal/bubble"
	"flyball.dev/ctrl/internal/httpserver"
	logf "flyball.dev/ctrl/log"
	"flyball.dev/ctrl/webhook/internal/metrics"
)

func log() logr.Logger { return logf.Current().WithName("webhook") }

const (
	shutdownTimeout = time.Minute
	checkTimeout    = 10 * time.Second
)

// Server serves webhooks over HTTPS. A manager has one. It is safe for concurrent use.
type Server interface {
	// NeedLeaderElection returns false: all replicas serve webhooks.
	NeedLeaderElection() bool

	// Register serves hook at path and measures it. It panics if the path is taken.
	Register(path string, hook http.Handler)

	// Start serves until ctx ends and the requests in flight are answered. It returns an error at once
	// if there is no certificate or the address cannot be listened on. A certificate in files that has
	// expired, or is not valid yet, is logged, and is replaced when its files are. It may be called
	// once.
	Start(ctx context.Context) error

	// StartedChecker returns a check that fails until the server accepts connections, and while its
	// certificate is not valid. It is meant for the readiness of a process, not for its liveness.
	StartedChecker() healthz.Checker

	// WebhookMux returns the mux that routes the requests.
	WebhookMux() *http.ServeMux
}

// NewServer returns a server.
func NewServer(o Options) Server { return &DefaultServer{Options: o} }

// DefaultServer is the [Server] of NewServer. With nothing but Options set it is ready for use.
type DefaultServer struct {
	// Options are the options of the server. They must not be changed once it is used.
	Options Options

	once       sync.Once
	ready      chan struct{} // closed when webhooks are served and installed
	markReady  func()        // closes ready, once
	hooks      hooks         // to be installed
	defaultDir bool          // CertDir was not set

	mu          sync.Mutex
	paths       map[string]bool
	address     string // at which this host reaches the server; empty until it listens
	certificate certificate
	newClient   func() (client.Client, error) // of the manager, or nil
	inProcess   bool                          // the API server runs in this process
}

// complete sets the defaults, once.
func (s *DefaultServer) complete() {
	s.once.Do(func() {
		s.defaultDir = s.Options.CertDir == ""
		s.Options.setDefaults()
		s.paths = map[string]bool{}
		s.ready = make(chan struct{})
		s.markReady = sync.OnceFunc(func() { close(s.ready) })
	})
}

// NeedLeaderElection returns false.
func (*DefaultServer) NeedLeaderElection() bool { return false }

// WebhookMux returns the mux that routes the requests: Options.WebhookMux, or a new one.
func (s *DefaultServer) WebhookMux() *http.ServeMux {
	s.complete()
	return s.Options.WebhookMux
}

// Register serves hook at path and measures it. It panics if the path is taken.
func (s *DefaultServer) Register(path string, hook http.Handler) {
	s.complete()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paths[path] {
		panic(fmt.Errorf("can't register duplicate path: %v", path))
	}
	s.paths[path] = true
	s.Options.WebhookMux.Handle(path, metrics.InstrumentedHook(path, hook))
	if s.Options.Port < 0 {
		log().Info("Webhook is disabled", "path", path)
	} else {
		log().Info("Registering webhook", "path", path)
	}
}

// Start serves until ctx ends and the requests in flight are answered.
func (s *DefaultServer) Start(ctx context.Context) error {
	s.complete()
	if s.Options.Port < 0 {
		log().Info("Webhook server is disabled")
		s.markReady()
		return nil
	}
	if s.Options.Listener == nil {
		if err := bubble.Check("the webhook server listens", "make it with the options that WebhookInstallOptions.ServerOptions "+
			"of an environment in memory returns, or set Listener and TLSOpts"); err != nil {
			return err
		}
	}
	log().Info("Starting webhook server")
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()

	config, certificate, err := s.tlsConfig()
	if err != nil {
		if s.Options.Listener != nil {
			_ = s.Options.Listener.Close()
		}
		if ctx.Err() != nil {
			return nil // the certificates may have been removed, and are not needed any more
		}
		return err
	}
	watching.Go(func() {
		if err := certificate.watch(ctx); err != nil {
			log().Error(err, "Certificate watcher error")
		}
	})
	listener, err := s.listen(ctx)
	if ctx.Err() != nil && err != nil {
		return nil // it need not listen any more
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.address, s.certificate = s.dialAddress(listener), certificate
	s.mu.Unlock()
	log().Info("Serving webhook server", "host", s.Options.Host, "address", listener.Addr().String())
	return s.serve(ctx, tls.NewListener(listener, config))
}

func (s *DefaultServer) listen(ctx context.Context) (net.Listener, error) {
	if s.Options.Listener != nil {
		return s.Options.Listener, nil
	}
	address := net.JoinHostPort(s.Options.Host, strconv.Itoa(s.Options.Port))
	for deadline := time.Now().Add(portWait); ; {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return listener, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(portWait / 50):
		}
	}
}

// portWait is how long Start waits for a port that is in use: a server of the same process, such as
// the server of the test before, closes its listener a moment after the end of its context.
const portWait = time.Second

// dialAddress returns the address under which this host reaches listener.
func (s *DefaultServer) dialAddress(listener net.Listener) string {
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return listener.Addr().String()
	}
	if s.Options.Listener == nil || net.ParseIP(host).IsUnspecified() {
		host = s.Options.Host // if empty, this host
	}
	return net.JoinHostPort(host, port)
}

// serve serves on listener until ctx ends. It installs the webhooks while it serves, because the
// API server may call them at once; if they cannot be installed, it shuts down and returns the
// error.
func (s *DefaultServer) serve(ctx context.Context, listener net.Listener) error {
	srv := httpserver.New(s.Options.WebhookMux)
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	serving, shutDown := context.WithCancel(ctx)
	defer shutDown()
	served := make(chan error, 1)
	go func() { served <- httpserver.Serve(serving, log(), srv, listener, new(shutdownTimeout)) }()

	switch err := s.install(ctx); {
	case err == nil:
		s.markReady()
	case ctx.Err() == nil:
		shutDown()
		<-served
		return err
	}
	return <-served // if ctx has ended, the webhooks need not be installed any more
}

// StartedChecker returns a check that fails until the server accepts connections, and while its
// certificate is not valid.
func (s *DefaultServer) StartedChecker() healthz.Checker {
	return func(req *http.Request) error {
		s.complete()
		s.mu.Lock()
		address, certificate := s.address, s.certificate
		s.mu.Unlock()
		switch {
		case s.Options.Port < 0:
			return nil
		case address == "":
			return errors.New("webhook server has not been started yet")
		}
		ctx := context.Background()
		if req != nil {
			ctx = req.Context()
		}
		chain, err := s.handshake(ctx, address, "")
		if err != nil {
			return err
		}
		return certificate.checkValidity(chain[0], time.Now())
	}
}

// Attach connects the server to its manager, which calls it before Start: newClient makes a client
// that reads from the API server, and inProcess says that the API server runs in this process. It
// is Flyball's own.
func (s *DefaultServer) Attach(newClient func() (client.Client, error), inProcess bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newClient, s.inProcess = newClient, inProcess
}

// WaitForReady waits until the webhooks are served, and installed if Options.Install is set. It
// returns false if ctx ends before. It is Flyball's own.
func (s *DefaultServer) WaitForReady(ctx context.Context) bool {
	s.complete()
	select {
	case <-s.ready:
		return true
	case <-ctx.Done():
		return false
	}
}
