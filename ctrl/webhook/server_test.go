package webhook_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"flyball.dev/ctrl/internal/certwatchertest"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/internal/reserve/reservetest"
)

func TestMain(m *testing.M) {
	certwatchertest.Observe()
	goleak.VerifyTestMain(m)
}

// authority signs certificates, as cert-manager does.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	a.cert = a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	issuer := a.cert
	if issuer == nil {
		issuer = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// issue writes a certificate for localhost, with a name, that is valid until a time into dir.
func (a *authority) issue(t *testing.T, dir, name string, notAfter time.Time) {
	t.Helper()
	a.issueBetween(t, dir, name, time.Now().Add(-24*time.Hour), notAfter)
}

// issueBetween is issue for a certificate that is valid from a time on.
func (a *authority) issueBetween(t *testing.T, dir, name string, notBefore, notAfter time.Time) {
	t.Helper()
	key := newKey(t)
	cert := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{{127, 0, 0, 1}},
		NotBefore: notBefore, NotAfter: notAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)
	der, err := x509.MarshalECPrivateKey(key)
	err = errors.Join(err,
		os.WriteFile(filepath.Join(dir, "tls.key"), encode("EC PRIVATE KEY", der), 0o600),
		os.WriteFile(filepath.Join(dir, "tls.crt"), encode("CERTIFICATE", cert.Raw), 0o600),
		os.WriteFile(filepath.Join(dir, "ca.crt"), encode("CERTIFICATE", a.cert.Raw), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// start runs a server for as long as the test, and returns when it is ready.
func start(t *testing.T, o webhook.Options) (server *webhook.DefaultServer, url string) {
	t.Helper()
	o.Listener = listen(t)
	server = webhook.NewServer(o).(*webhook.DefaultServer)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx); cancel() }()
	ready := server.WaitForReady(ctx)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if !ready {
		t.Fatal("the server did not start")
	}
	return server, "https://" + o.Listener.Addr().String()
}

// client returns an HTTP client of its own for a TLS configuration.
func client(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(c *http.Client, url string) (*http.Response, string, error) {
	resp, err := c.Get(url)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

func TestServe(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	ca.issue(t, dir, "first", time.Now().Add(time.Hour))
	var server *webhook.DefaultServer
	var url string
	t.Run("server", func(t *testing.T) {
		server, url = start(t, webhook.Options{CertDir: dir})
		c := client(t, &tls.Config{RootCAs: ca.pool()})
		server.Register("/late", hello)
		resp, body, err := get(c, url+"/late")
		if err != nil || body != "hello" || resp.ProtoMajor != 2 {
			t.Fatalf("got %q, %v, %v", body, resp, err)
		}
		if resp, _, err := get(c, url+"/other"); err != nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("another path: %v, %v", resp, err)
		}
		if err := server.StartedChecker()(nil); err != nil {
			t.Error(err)
		}
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != "can't register duplicate path: /late" {
					t.Errorf("recovered %s", got)
				}
			}()
			server.Register("/late", hello)
		}()
	})
	if err := server.StartedChecker()(nil); err == nil {
		t.Error("a server that has stopped passes the check")
	}
	if server.NeedLeaderElection() {
		t.Error("the server needs leader election")
	}
}

func TestWithoutHTTP2(t *testing.T) {
	server, url := start(t, webhook.Options{SelfSigned: &webhook.SelfSigned{}, CertDir: t.TempDir(), TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} },
	}})
	server.Register("/", hello)
	resp, body, err := get(client(t, &tls.Config{InsecureSkipVerify: true}), url)
	if err != nil || body != "hello" || resp.ProtoMajor != 1 {
		t.Errorf("got %q, %v, %v", body, resp, err)
	}
}

func TestCertificateIsReloaded(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	ca.issue(t, dir, "first", time.Now().Add(time.Hour))
	_, url := start(t, webhook.Options{CertDir: dir})
	names := func() string {
		resp, _, err := get(client(t, &tls.Config{RootCAs: ca.pool()}), url)
		if err != nil {
			t.Fatal(err)
		}
		return resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	if got := names(); got != "first" {
		t.Fatalf("the certificate is %s", got)
	}
	ca.issue(t, dir, "second", time.Now().Add(time.Hour))
	certwatchertest.Await(filepath.Join(dir, "tls.crt"), 2)
	if got := names(); got != "second" {
		t.Errorf("after it was replaced, the certificate is %s", got)
	}
}

// A certificate that is not valid when the server starts is served, and replaced when its files are.
func TestInvalidCertificateAtStart(t *testing.T) {
	ca := newAuthority(t)
	now := time.Now()
	for name, dates := range map[string][2]time.Time{
		"has expired":      {now.Add(-24 * time.Hour), now.Add(-time.Hour)},
		"is not valid yet": {now.Add(30 * time.Minute), now.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ca.issueBetween(t, dir, "first", dates[0], dates[1])
			server, url := start(t, webhook.Options{CertDir: dir})
			check := server.StartedChecker()
			if err := check(nil); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("the check: %v", err)
			}
			var invalid x509.CertificateInvalidError
			if _, _, err := get(client(t, &tls.Config{RootCAs: ca.pool()}), url); !errors.As(err, &invalid) {
				t.Errorf("a request: %v", err)
			}
			ca.issue(t, dir, "second", now.Add(time.Hour))
			certwatchertest.Await(filepath.Join(dir, "tls.crt"), 2)
			if err := check(nil); err != nil {
				t.Errorf("the check of the new certificate: %v", err)
			}
			if _, _, err := get(client(t, &tls.Config{RootCAs: ca.pool()}), url); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestClientCertificates(t *testing.T) {
	ca, dir, clients := newAuthority(t), t.TempDir(), t.TempDir()
	ca.issue(t, dir, "server", time.Now().Add(time.Hour))
	ca.issue(t, clients, "client", time.Now().Add(time.Hour))
	server, url := start(t, webhook.Options{CertDir: dir, ClientCAName: "ca.crt"})
	server.Register("/", hello)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: ca.pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(clients, "tls.crt"), filepath.Join(clients, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, body, err := get(client(t, &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{pair}}), url); err != nil || body != "hello" {
		t.Errorf("with a certificate: %q, %v", body, err)
	}
}

func TestGetCertificateIsPreferred(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	ca.issue(t, dir, "by function", time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	_, url := start(t, webhook.Options{CertDir: t.TempDir(), TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
		c.MinVersion = tls.VersionTLS13
	}}})
	resp, _, err := get(client(t, &tls.Config{RootCAs: ca.pool()}), url)
	if err != nil || resp.TLS.PeerCertificates[0].Subject.CommonName != "by function" || resp.TLS.Version != tls.VersionTLS13 {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestSelfSigned(t *testing.T) {
	dir := t.TempDir()
	_, url := start(t, webhook.Options{CertDir: dir, SelfSigned: &webhook.SelfSigned{Hosts: []string{"host.docker.internal", "10.1.2.3"}}})
	resp, _, err := get(client(t, &tls.Config{InsecureSkipVerify: true}), url)
	if err != nil {
		t.Fatal(err)
	}
	chain := resp.TLS.PeerCertificates
	roots := x509.NewCertPool()
	roots.AddCert(chain[1])
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "host.docker.internal", "10.1.2.3"} {
		if _, err := chain[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{DNSName: "example.org", Roots: roots}); err == nil {
		t.Error("the certificate is valid for another host")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("files were written: %v, %v", files, err)
	}
}

func TestStartErrors(t *testing.T) {
	ca := newAuthority(t)
	valid, half, mismatched := t.TempDir(), t.TempDir(), t.TempDir()
	ca.issue(t, valid, "valid", time.Now().Add(time.Hour))
	ca.issue(t, half, "half", time.Now().Add(time.Hour))
	ca.issue(t, mismatched, "mismatched", time.Now().Add(time.Hour))
	copyOf := func(from, to, name string) error {
		data, err := os.ReadFile(filepath.Join(from, name))
		return errors.Join(err, os.WriteFile(filepath.Join(to, name), data, 0o600))
	}
	err := errors.Join(os.Remove(filepath.Join(half, "tls.key")), copyOf(valid, mismatched, "tls.key"),
		os.WriteFile(filepath.Join(valid, "empty.crt"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	taken := listen(t)
	defer taken.Close()
	for name, c := range map[string]struct {
		options webhook.Options
		want    []string
	}{
		"missing":         {webhook.Options{CertDir: filepath.Join(valid, "none")}, []string{filepath.Join(valid, "none", "tls.crt"), "no such file", "CertDir", "SelfSigned"}},
		"key missing":     {webhook.Options{CertDir: half, SelfSigned: &webhook.SelfSigned{}}, []string{filepath.Join(half, "tls.key"), "no such file"}},
		"mismatched":      {webhook.Options{CertDir: mismatched}, []string{filepath.Join(mismatched, "tls.crt"), "private key does not match"}},
		"other names":     {webhook.Options{CertDir: valid, CertName: "a.crt", KeyName: "a.key"}, []string{filepath.Join(valid, "a.crt"), "no such file"}},
		"no client CA":    {webhook.Options{CertDir: valid, ClientCAName: "clients.crt"}, []string{"failed to read client CA cert", filepath.Join(valid, "clients.crt")}},
		"empty client CA": {webhook.Options{CertDir: valid, ClientCAName: "empty.crt"}, []string{"failed to append client CA cert to CA pool", "empty.crt"}},
		"no manager":      {webhook.Options{CertDir: valid, Listener: listen(t), Install: &webhook.Install{}}, []string{"webhooks cannot be installed", "manager"}},
		"port taken":      {webhook.Options{CertDir: valid, Host: "127.0.0.1", Port: taken.Addr().(*net.TCPAddr).Port}, []string{"address already in use"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := webhook.NewServer(c.options).Start(t.Context())
			if err == nil {
				t.Fatal("the server started")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not have %q", err, part)
				}
			}
		})
	}
	if err := webhook.NewServer(webhook.Options{CertDir: filepath.Join(valid, "none")}).Start(t.Context()); !os.IsNotExist(err) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}

func TestListenerIsClosedOnErrors(t *testing.T) {
	listener := listen(t)
	if err := webhook.NewServer(webhook.Options{CertDir: t.TempDir(), Listener: listener}).Start(t.Context()); err == nil {
		t.Fatal("the server started")
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting: %v", err)
	}
}

func TestCheckFindsExpiry(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	ca.issue(t, dir, "long", time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca.issue(t, dir, "expired", time.Now().Add(-time.Hour))
	expired, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	var current atomic.Pointer[tls.Certificate]
	current.Store(&pair)
	server, _ := start(t, webhook.Options{TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil }
	}}})
	if err := server.StartedChecker()(nil); err != nil {
		t.Error(err)
	}
	current.Store(&expired)
	if err := server.StartedChecker()(nil); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("the error is %v", err)
	}
}

func TestDisabledServer(t *testing.T) {
	server := webhook.NewServer(webhook.Options{Port: -1})
	server.Register("/x", hello)
	if err := errors.Join(server.Start(t.Context()), server.StartedChecker()(nil)); err != nil {
		t.Error(err)
	}
}

func TestDefaults(t *testing.T) {
	server := &webhook.DefaultServer{}
	if server.WebhookMux() == nil || server.WebhookMux() != server.Options.WebhookMux {
		t.Error("there is no mux")
	}
	want := webhook.Options{
		Port: 9443, CertDir: filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs"), CertName: "tls.crt", KeyName: "tls.key",
	}
	if o := server.Options; o.Port != want.Port || o.CertDir != want.CertDir || o.CertName != want.CertName || o.KeyName != want.KeyName {
		t.Errorf("the options are %+v", o)
	}
	if err := server.StartedChecker()(nil); err == nil || err.Error() != "webhook server has not been started yet" {
		t.Errorf("the error is %v", err)
	}
	mux := http.NewServeMux()
	if got := webhook.NewServer(webhook.Options{WebhookMux: mux}).WebhookMux(); got != mux {
		t.Error("the mux is another one")
	}
}

func TestRequestsInFlightAreAnswered(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan error, 1)
	listener := listen(t)
	server := webhook.NewServer(webhook.Options{SelfSigned: &webhook.SelfSigned{}, CertDir: t.TempDir(), Listener: listener})
	server.Register("/slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done() // the server is stopping
		fmt.Fprint(w, "done")
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- server.Start(ctx) }()
	go func() { <-arrived; cancel() }()
	_, body, err := get(client(t, &tls.Config{InsecureSkipVerify: true}), "https://"+listener.Addr().String()+"/slow")
	if err != nil || body != "done" {
		t.Errorf("got %q, %v", body, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Nothing is left of a server when its listener fails.
func TestListenerFails(t *testing.T) {
	listener, ended := listen(t), make(chan error, 1)
	server := webhook.NewServer(webhook.Options{SelfSigned: &webhook.SelfSigned{}, CertDir: t.TempDir(), Listener: listener})
	go func() { ended <- server.Start(t.Context()) }()
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil { // returns when the connection is closed
		t.Error("the connection is still open")
	}
}

func TestPort(t *testing.T) {
	port := reservetest.Port(t)
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, SelfSigned: &webhook.SelfSigned{}, CertDir: t.TempDir()}).(*webhook.DefaultServer)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	if !server.WaitForReady(ctx) {
		t.Fatal("the server did not start")
	}
	if err := server.StartedChecker()(nil); err != nil {
		t.Error(err)
	}
	if _, _, err := get(client(t, &tls.Config{InsecureSkipVerify: true}), fmt.Sprintf("https://127.0.0.1:%d/", port)); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A server can be started on the port of another one as soon as that one's context has ended.
func TestStartOnPortOfServerThatEnds(t *testing.T) {
	certificates, port := t.TempDir(), reservetest.Port(t)
	newAuthority(t).issue(t, certificates, "webhooks", time.Now().Add(time.Hour))
	const servers = 20
	ended := make(chan error, servers)
	for range servers {
		ctx, cancel := context.WithCancel(t.Context())
		server := webhook.NewServer(webhook.Options{CertDir: certificates, Host: "127.0.0.1", Port: port}).(*webhook.DefaultServer)
		go func() { ended <- server.Start(ctx); cancel() }()
		server.WaitForReady(ctx)
		cancel()
	}
	for range servers {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestStartAfterItsEnd starts a server with a context that has ended. What it would need is of no
// interest then: a test may have removed the certificates with the rest of its environment.
func TestStartAfterItsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := webhook.NewServer(webhook.Options{CertDir: filepath.Join(t.TempDir(), "none")}).Start(ctx); err != nil {
		t.Error(err)
	}
}
