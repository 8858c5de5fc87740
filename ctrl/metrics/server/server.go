// Package server serves the metrics of the runtime over HTTP or HTTPS.
package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/certwatcher"
	"flyball.dev/ctrl/internal/aliasvar"
	"flyball.dev/ctrl/internal/httpserver"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/metrics"
)

// DefaultBindAddress is the default of Options.BindAddress. "0" disables the server.
var DefaultBindAddress = ":8080"

var defaultBindAddress = aliasvar.Var[string]{Original: &DefaultBindAddress}

// AliasDefaultBindAddress makes servers use the value at alias instead of [DefaultBindAddress] once
// it has been changed. It is an addition of Flyball, for packages that export the variable under
// another import path, and is called when they are initialized.
func AliasDefaultBindAddress(alias *string) { defaultBindAddress.SetAlias(alias) }

const (
	metricsPath     = "/metrics"
	shutdownTimeout = time.Minute
)

// Server serves metrics.
type Server interface {
	// AddExtraHandler adds a handler for path. It must be called before Start, and returns an error
	// if the path has a handler. Responses may be sensitive, as profiles are, so access to
	// the server should be restricted.
	AddExtraHandler(path string, handler http.Handler) error

	// NeedLeaderElection returns false: all replicas serve metrics.
	NeedLeaderElection() bool

	// Start listens and serves until ctx ends, and then shuts down gracefully. It returns an error if
	// it cannot listen on the address.
	Start(ctx context.Context) error
}

// Filter wraps the handler of a path, for authentication and authorization, for example.
type Filter func(log logr.Logger, handler http.Handler) (http.Handler, error)

// Options are the options of a server.
type Options struct {
	// SecureServing serves HTTPS. By default it is HTTP.
	SecureServing bool

	// BindAddress is the host and port to listen on, [DefaultBindAddress] if empty. "0" disables the
	// server.
	BindAddress string

	// ExtraHandlers are handlers by path, as with AddExtraHandler.
	ExtraHandlers map[string]http.Handler

	// FilterProvider creates the filter for the handlers of all paths, such as
	// filters.WithAuthenticationAndAuthorization. It is called once, with the manager's configuration
	// and HTTP client. By default there is no filter.
	FilterProvider func(c *rest.Config, httpClient *http.Client) (Filter, error)

	// CertDir is the directory of the certificate and its key, by default
	// k8s-metrics-server/serving-certs in the directory for temporary files. They are read again when
	// they change. If they do not exist when the server starts, it generates a self-signed
	// certificate.
	CertDir string

	// CertName and KeyName are the names of the files in CertDir: tls.crt and tls.key by default.
	CertName string
	KeyName  string

	// TLSOpts change the TLS configuration. If one sets GetCertificate, no files are read.
	TLSOpts []func(*tls.Config)

	// HandlerOpts change the options of the handler that renders the metrics.
	HandlerOpts []func(*promhttp.HandlerOpts)

	// ListenConfig is used to listen.
	ListenConfig net.ListenConfig
}

// NewServer returns a server, or nil and no error if it is disabled. It does not listen before
// Start.
func NewServer(o Options, config *rest.Config, httpClient *http.Client) (Server, error) {
	if o.BindAddress == "" {
		o.BindAddress = defaultBindAddress.Get()
	}
	if o.BindAddress == "0" {
		return nil, nil
	}
	if o.CertDir == "" {
		o.CertDir = filepath.Join(os.TempDir(), "k8s-metrics-server", "serving-certs")
	}
	if o.CertName == "" {
		o.CertName = "tls.crt"
	}
	if o.KeyName == "" {
		o.KeyName = "tls.key"
	}
	s := &server{options: o, handlers: map[string]http.Handler{}}
	for path, handler := range o.ExtraHandlers {
		if err := s.AddExtraHandler(path, handler); err != nil {
			return nil, err
		}
	}
	if o.FilterProvider != nil {
		filter, err := o.FilterProvider(config, httpClient)
		if err != nil {
			return nil, fmt.Errorf("filter provider failed to create filter for the metrics server: %w", err)
		}
		s.filter = filter
	}
	return s, nil
}

// server is the metrics server.
type server struct {
	options Options
	filter  Filter

	mu       sync.Mutex
	handlers map[string]http.Handler
	address  string // where it listens, once it does
}

func (*server) NeedLeaderElection() bool { return false }

func (s *server) AddExtraHandler(path string, handler http.Handler) error {
	if path == metricsPath {
		return fmt.Errorf("overriding builtin %s endpoint is not allowed", metricsPath)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.handlers[path]; taken {
		return fmt.Errorf("can't register extra handler by duplicate path %q on metrics http server", path)
	}
	s.handlers[path] = handler
	return nil
}

func (s *server) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("metrics")
	mux, err := s.mux(logger)
	if err != nil {
		return fmt.Errorf("failed to start metrics server: %w", err)
	}
	listener, watcher, err := s.listen(ctx)
	if err != nil {
		return fmt.Errorf("failed to start metrics server: failed to create listener: %w", err)
	}
	if watcher != nil {
		var watching sync.WaitGroup
		defer watching.Wait()
		watched, cancel := context.WithCancel(ctx)
		defer cancel()
		watching.Go(func() {
			if err := watcher.Start(watched); err != nil {
				logger.Error(err, "Certificate watcher failed")
			}
		})
	}
	logger.Info("Serving metrics", "bindAddress", listener.Addr().String(), "secure", s.options.SecureServing)
	srv := httpserver.New(mux)
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	return httpserver.Serve(ctx, logger, srv, listener, new(shutdownTimeout))
}

// mux returns the handlers of all paths, wrapped in the filter.
func (s *server) mux(logger logr.Logger) (*http.ServeMux, error) {
	opts := promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}
	for _, change := range s.options.HandlerOpts {
		change(&opts)
	}
	mux := http.NewServeMux()
	handle := func(path string, handler http.Handler) error {
		if s.filter != nil {
			var err error
			if handler, err = s.filter(logger.WithValues("path", path), handler); err != nil {
				return fmt.Errorf("failed to add metrics filter to path %s: %w", path, err)
			}
		}
		mux.Handle(path, handler)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, handler := range s.handlers {
		if err := handle(path, handler); err != nil {
			return nil, err
		}
	}
	return mux, handle(metricsPath, promhttp.HandlerFor(metrics.CurrentRegistry(), opts))
}

// listen returns the listener, and the watcher of its certificate if there is one, which is to be
// run by the caller.
func (s *server) listen(ctx context.Context) (listener net.Listener, watcher *certwatcher.CertWatcher, err error) {
	var config *tls.Config
	if s.options.SecureServing {
		if config, watcher, err = s.tlsConfig(); err != nil {
			return nil, nil, err
		}
	}
	listener, err = s.options.ListenConfig.Listen(ctx, "tcp", s.options.BindAddress)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	s.address = listener.Addr().String()
	s.mu.Unlock()
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	return listener, watcher, nil
}

// GetBindAddr returns the address that the server listens on, with the port that the system chose
// if the option has port 0. It is empty before the server listens.
func (s *server) GetBindAddr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}
