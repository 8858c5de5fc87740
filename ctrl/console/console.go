// Package console serves a page that shows the controllers of a manager at work: the queued requests and their causes, the reads, writes
// and log lines of each reconcile, the owners of objects, and the content of the caches.
//
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Console: console.New(console.Options{})})
//
// The manager serves the page on a free port of loopback, and prints the URL, which has a token, to standard error. All data of the
// page is also JSON, below /console/api/. docs/console.md describes the pages, the API and the rights that it takes.
//
// A program that does not import the package links neither the console nor html/template.
//
// # Cost
//
// While nobody looks, the console records references and log lines: see BenchmarkCost. Differences, percentiles and trees
// are computed when a page is requested. The records take 12 MiB at most.
//
// # Secrets
//
// The console never shows the data of a Secret, nor bytes or objects that were logged. It shows what the operator itself
// may read: whoever may see the console sees the other objects of the operator.
//
// # Linking
//
// The option Console of a manager is an interface that only this package implements, since the linker keeps all methods
// of all types for html/template. flyball dev adds an import of package always by an overlay of go build.
package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/httpserver"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/internal/privatefile"
	"flyball.dev/internal/selfsigned"
)

// Options are the options of a console. The zero value is valid.
type Options struct {
	// BindAddress is the host and port to listen on, 127.0.0.1:0 by default: a free port of loopback. An address that is
	// not of loopback needs a FilterProvider, and is served over HTTPS.
	BindAddress string

	// Token is the secret in the URL, on loopback. By default it is random.
	Token string

	// FilterProvider authenticates and authorizes all requests, instead of the token:
	// filters.WithAuthenticationAndAuthorization asks the API server by a TokenReview and a SubjectAccessReview. It takes
	// the verbs get and post on the nonResourceURLs /console and /console/*. A browser asks for a bearer token.
	FilterProvider func(c *rest.Config, httpClient *http.Client) (metricsserver.Filter, error)

	// TLSConfig is for HTTPS. By default the certificate is made at the start, and signed by itself.
	TLSConfig *tls.Config

	// URLFile, if not empty, is the path of a file that has the URL while the manager runs, readable by its owner alone.
	// flyball top and flyball why read DefaultURLFile.
	URLFile string

	// OnURL is called with the URL of the page, with the token in it, before the manager starts. By default the URL is
	// printed to standard error.
	OnURL func(url string)
}

// Console is the console of one manager. It implements manager.Console.
type Console struct {
	options      Options
	started      time.Time
	manager      manager.Manager
	recorder     *observe.Recorder
	events       client.Client // writes the Events of acts
	auditTimeout time.Duration
	listener     net.Listener
	handler      http.Handler
	url          string
	local        bool // whether requests must be for a name of loopback

	streams  chan struct{} // a place for each stream
	trees    sync.Mutex    // held while a page looks at the objects of the caches
	attached sync.Once
}

var _ manager.Console = (*Console)(nil)

// New returns a console for Options of a manager.
func New(o Options) *Console { return &Console{options: o, auditTimeout: auditTimeout} }

// URL returns the URL of the page, with its token. It is empty before the manager is made.
func (c *Console) URL() string { return c.url }

// DefaultURLFile is the path of the file in which flyball top and flyball why look for the URL.
const DefaultURLFile = ".flyball/console"

const maxStreams = 64

// Attach implements manager.Console. It listens, but serves nothing before the manager starts.
func (c *Console) Attach(m manager.Manager, r *observe.Recorder) (manager.Runnable, error) {
	err := errors.New("a console belongs to one manager")
	c.attached.Do(func() { err = c.attach(m, r) })
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return manager.RunnableFunc(c.serve), nil
}

// attach makes the handler, and listens.
func (c *Console) attach(m manager.Manager, r *observe.Recorder) error {
	c.manager, c.recorder, c.started = m, r, time.Now()
	c.streams = make(chan struct{}, maxStreams)
	var err error
	c.events, err = client.New(m.GetConfig(), client.Options{HTTPClient: m.GetHTTPClient(), Mapper: m.GetRESTMapper()})
	if err != nil {
		return err
	}
	address := cmp.Or(c.options.BindAddress, "127.0.0.1:0")
	if c.local, err = isLoopback(address); err != nil {
		return err
	}
	if !c.local && c.options.FilterProvider == nil {
		return fmt.Errorf("%s is not an address of loopback, so it takes a FilterProvider, such as "+
			"filters.WithAuthenticationAndAuthorization", address)
	}
	if c.handler, err = c.newHandler(); err != nil {
		return err
	}
	if c.listener, err = net.Listen("tcp", address); err != nil {
		return err
	}
	scheme := "http"
	if !c.local || c.options.TLSConfig != nil {
		scheme = "https"
		if err := c.secure(); err != nil {
			return errors.Join(err, c.listener.Close())
		}
	}
	c.url = scheme + "://" + c.listener.Addr().String() + "/console/"
	if c.options.FilterProvider == nil {
		c.url += "?token=" + c.options.Token
	}
	c.announce()
	return nil
}

func (c *Console) announce() {
	if c.options.OnURL != nil {
		c.options.OnURL(c.url)
		return
	}
	fmt.Fprintf(os.Stderr, "The console is at %s\n", c.url)
}

// isLoopback reports whether an address is one of loopback.
func isLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	if host == "localhost" {
		return true, nil
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback(), nil
}

// secure makes the listener one for TLS.
func (c *Console) secure() error {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.options.TLSConfig != nil {
		config = c.options.TLSConfig.Clone()
	}
	if len(config.Certificates) == 0 && config.GetCertificate == nil && config.GetConfigForClient == nil {
		pair, err := selfsigned.New("localhost", 365*24*time.Hour, []string{"localhost", "127.0.0.1"})
		if err != nil {
			return err
		}
		config.Certificates = []tls.Certificate{*pair.Certificate}
	}
	config.NextProtos = []string{"http/1.1"} // streams take deadlines of their own
	c.listener = tls.NewListener(c.listener, config)
	return nil
}

// serve serves until ctx ends.
func (c *Console) serve(ctx context.Context) error {
	if c.options.URLFile != "" {
		if err := c.writeURL(); err != nil {
			c.manager.GetLogger().Error(err, "The URL of the console is in no file")
		} else {
			defer c.removeURL()
		}
	}
	server := httpserver.New(c.handler)
	server.ReadTimeout, server.WriteTimeout = 10*time.Second, 30*time.Second
	server.MaxHeaderBytes = 32 << 10
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	return httpserver.Serve(ctx, c.manager.GetLogger().WithValues("name", "console").V(1), server, c.listener, nil)
}

// writeURL writes the file with the URL.
func (c *Console) writeURL() error {
	if err := os.MkdirAll(filepath.Dir(c.options.URLFile), 0o750); err != nil {
		return err
	}
	return privatefile.Write(c.options.URLFile, func(w io.Writer) error {
		_, err := io.WriteString(w, c.url+"\n")
		return err
	})
}

// removeURL removes the file with the URL, unless another console has replaced it.
func (c *Console) removeURL() {
	if content, err := os.ReadFile(c.options.URLFile); err == nil && strings.TrimSpace(string(content)) == c.url {
		_ = os.Remove(c.options.URLFile)
	}
}

// newToken returns a random token of 192 bits.
func newToken() string {
	var random [24]byte
	_, _ = rand.Read(random[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}
