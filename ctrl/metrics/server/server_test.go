package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"flyball.dev/ctrl/internal/certwatchertest"
	"flyball.dev/ctrl/log"
)

func TestMain(m *testing.M) {
	certwatchertest.Observe()
	goleak.VerifyTestMain(m)
}

// run starts a server on a free port of the loopback and returns a function that sends requests to
// it.
func run(t *testing.T, o Options) (get func(path string) (int, string, *tls.ConnectionState)) {
	t.Helper()
	o.BindAddress = "127.0.0.1:0"
	created, err := NewServer(o, &rest.Config{}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	s := created.(*server)
	serving := make(chan struct{})
	logger := funcr.New(func(_, args string) {
		if strings.Contains(args, "Serving metrics") {
			close(serving)
		}
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), logger))
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	select {
	case <-serving:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	scheme := "http"
	if o.SecureServing {
		scheme = "https"
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	}}
	return func(path string) (int, string, *tls.ConnectionState) {
		t.Helper()
		resp, err := client.Get(scheme + "://" + s.GetBindAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body), resp.TLS
	}
}

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) })
}

func TestMetricsAndExtraHandlers(t *testing.T) {
	get := run(t, Options{
		ExtraHandlers: map[string]http.Handler{"/extra": text("more")},
		HandlerOpts:   []func(*promhttp.HandlerOpts){func(o *promhttp.HandlerOpts) { o.DisableCompression = true }},
	})
	if code, body, _ := get("/metrics"); code != 200 || !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics: %d\n%s", code, body)
	}
	if code, body, _ := get("/extra"); code != 200 || body != "more" {
		t.Errorf("/extra: %d %s", code, body)
	}
	if code, _, _ := get("/else"); code != 404 {
		t.Errorf("/else: %d", code)
	}
}

func TestFilter(t *testing.T) {
	get := run(t, Options{
		ExtraHandlers: map[string]http.Handler{"/extra": text("more")},
		FilterProvider: func(*rest.Config, *http.Client) (Filter, error) {
			return func(_ logr.Logger, _ http.Handler) (http.Handler, error) {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }), nil
			}, nil
		},
	})
	for _, path := range []string{"/metrics", "/extra"} {
		if code, _, _ := get(path); code != 401 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestHTTPS(t *testing.T) {
	dir := t.TempDir()
	write := func(host string, at time.Time) {
		t.Helper()
		cert, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures(host, nil, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"c.pem": cert, "k.pem": key} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	options := Options{SecureServing: true, CertDir: dir, CertName: "c.pem", KeyName: "k.pem"}
	served := func(get func(string) (int, string, *tls.ConnectionState)) string {
		t.Helper()
		code, _, state := get("/metrics")
		if code != 200 {
			t.Errorf("/metrics: %d", code)
		}
		return state.PeerCertificates[0].Subject.CommonName
	}

	if name := served(run(t, options)); !strings.HasPrefix(name, "localhost") {
		t.Errorf("without files the certificate is for %s", name)
	}
	write("first.test", time.Unix(1, 0))
	get := run(t, options)
	if name := served(get); !strings.HasPrefix(name, "first.test") {
		t.Errorf("the certificate is for %s", name)
	}
	write("second.test", time.Unix(2, 0))
	certwatchertest.Await(filepath.Join(dir, "c.pem"), 2)
	if name := served(get); !strings.HasPrefix(name, "second.test") {
		t.Errorf("after it was replaced, the certificate is for %s", name)
	}
	if err := os.Remove(filepath.Join(dir, "k.pem")); err != nil {
		t.Fatal(err)
	}
	if name := served(get); !strings.HasPrefix(name, "second.test") {
		t.Errorf("after the key was lost, the certificate is for %s", name)
	}
	own := errors.New("no certificate")
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, own }
	}}
	s, err := NewServer(options, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := s.(*server).tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.GetCertificate(nil); err != own {
		t.Errorf("TLSOpts were overruled: %v", err)
	}
}

func TestNoServerByDefault(t *testing.T) {
	defer func(address string) { DefaultBindAddress = address }(DefaultBindAddress)
	DefaultBindAddress = "0"
	if s, err := NewServer(Options{}, nil, nil); s != nil || err != nil {
		t.Errorf("a disabled server by default: %v, %v", s, err)
	}
	if s, err := NewServer(Options{BindAddress: "127.0.0.1:0"}, nil, nil); s == nil || err != nil {
		t.Errorf("a server that is disabled by default, but enabled by its options: %v, %v", s, err)
	}
}

func TestNewServerErrors(t *testing.T) {
	if s, err := NewServer(Options{BindAddress: "0"}, nil, nil); s != nil || err != nil {
		t.Errorf("a disabled server: %v, %v", s, err)
	}
	if _, err := NewServer(Options{ExtraHandlers: map[string]http.Handler{"/metrics": nil}}, nil, nil); err == nil {
		t.Error("/metrics was overridden")
	}
	broken := errors.New("broken")
	if _, err := NewServer(Options{FilterProvider: func(*rest.Config, *http.Client) (Filter, error) { return nil, broken }}, nil, nil); !errors.Is(err, broken) {
		t.Errorf("a filter provider that fails: %v", err)
	}
	s, err := NewServer(Options{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.AddExtraHandler("/a", text("")) != nil || s.AddExtraHandler("/a", text("")) == nil {
		t.Error("a path can be taken once and no more")
	}

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, err = NewServer(Options{BindAddress: taken.Addr().String()}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "failed to start metrics server: failed to create listener: listen tcp "+taken.Addr().String()) {
		t.Errorf("on a port in use: %v", err)
	}
}
