package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"flyball.dev/ctrl/certwatcher"
)

// certificate is the source of a server's certificate, which may change while the server runs, and
// of the CA that clients verify it with.
type certificate struct {
	source string // file names, for messages
	get    func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	watch  func(context.Context) error // keeps it up to date until the context ends
	// ca returns the certificates, in PEM, that clients verify a chain with, or nothing if it is not
	// known who signed it.
	ca func() []byte
}

// tlsConfig returns the configuration of TLS, with the certificate that it has: the one of TLSOpts,
// else the one in the files, else a self-signed one if there may be one.
func (s *DefaultServer) tlsConfig() (*tls.Config, certificate, error) {
	config := &tls.Config{NextProtos: []string{"h2"}}
	for _, change := range s.Options.TLSOpts {
		change(config)
	}
	if s.Options.ClientCAName != "" {
		clients, err := readPool(filepath.Join(s.Options.CertDir, s.Options.ClientCAName))
		if err != nil {
			return nil, certificate{}, err
		}
		config.ClientCAs, config.ClientAuth = clients, tls.RequireAndVerifyClientCert
	}
	cert, err := s.chooseCertificate(config)
	config.GetCertificate = cert.get
	return config, cert, err
}

// chooseCertificate returns where the certificate for config comes from.
func (s *DefaultServer) chooseCertificate(config *tls.Config) (certificate, error) {
	if config.GetCertificate != nil {
		return certificateOfOptions(config), nil
	}
	certFile := filepath.Join(s.Options.CertDir, s.Options.CertName)
	keyFile := filepath.Join(s.Options.CertDir, s.Options.KeyName)
	err, keyErr := stat(certFile), stat(keyFile)
	if errors.Is(err, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) && s.maySign() {
		if len(config.Certificates) > 0 {
			return certificateOfOptions(config), nil
		}
		return selfSigned(s.hosts())
	}
	if err == nil {
		err = keyErr
	}
	if err != nil {
		return certificate{}, err
	}
	return certificateInFiles(certFile, keyFile, filepath.Join(s.Options.CertDir, "ca.crt"))
}

// certificateOfOptions returns the certificate that TLSOpts have set.
func certificateOfOptions(config *tls.Config) certificate {
	return certificate{
		source: "the certificate of TLSOpts", get: config.GetCertificate, watch: noWatch, ca: func() []byte { return nil },
	}
}

// stat returns an error with the remedy if a file of the certificate cannot be found. It is one
// that os.IsNotExist recognizes, which does not unwrap errors.
func stat(file string) error {
	_, err := os.Stat(file)
	if pathErr, ok := err.(*fs.PathError); ok {
		pathErr.Op = "the webhook server has no certificate: create its files, for example with cert-manager, or set " +
			"CertDir in webhook.Options to where they are; for development, set SelfSigned: " + pathErr.Op
	}
	return err
}

// maySign reports whether the server may sign its own certificate.
func (s *DefaultServer) maySign() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Options.SelfSigned != nil || s.Options.Install != nil || s.inProcess && s.defaultDir
}

// certificateInFiles returns the certificate in two files, which are watched. If it is not valid now,
// the server serves it nevertheless, and the watcher logs it: its files may be replaced at any time.
func certificateInFiles(certFile, keyFile, caFile string) (certificate, error) {
	watcher, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		return certificate{}, fmt.Errorf("the webhook server cannot use its certificate: %w", err)
	}
	cert := certificate{source: certFile, get: watcher.GetCertificate, watch: watcher.Start}
	cert.ca = func() []byte {
		// cert-manager writes the CA beside the certificate.
		ca, err := os.ReadFile(caFile)
		if err != nil || len(bytes.TrimSpace(ca)) == 0 {
			return nil
		}
		return ca
	}
	return cert, nil
}

func noWatch(context.Context) error { return nil }

// checkValidity returns an error if leaf, which comes from c, has expired or is not valid yet.
func (c certificate) checkValidity(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate of the webhook server has expired: %s was valid until %s: renew it",
			c.source, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate of the webhook server is not valid yet: %s is valid from %s: check the clock",
			c.source, leaf.NotBefore.UTC().Format(time.RFC3339))
	default:
		return nil
	}
}

// caBundle returns the CA bundle for clients that call the server by host, a name or address, and
// to which it presents chain. It returns an error if they would not accept the chain while it is valid.
func (c certificate) caBundle(host string, chain []*x509.Certificate) ([]byte, error) {
	bundle := c.ca()
	if bundle == nil {
		bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[len(chain)-1].Raw})
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		DNSName: host, Roots: roots, Intermediates: intermediates, CurrentTime: within(chain[0], time.Now()),
	})
	if err != nil {
		return nil, fmt.Errorf("the API server would refuse the certificate of the webhook server, %s, for %s: %w",
			c.source, host, err)
	}
	return bundle, nil
}

// within returns the time at which a certificate is valid that is closest to now.
func within(leaf *x509.Certificate, now time.Time) time.Time {
	switch {
	case now.Before(leaf.NotBefore):
		return leaf.NotBefore
	case now.After(leaf.NotAfter):
		return leaf.NotAfter
	default:
		return now
	}
}

// handshake connects to the server at address as a client that calls it by host, a name or address,
// and returns the certificates that the server presents. An error with certificates means that the
// server presented them and then refused the connection, for want of a client certificate perhaps.
func (s *DefaultServer) handshake(ctx context.Context, address, host string) (chain []*x509.Certificate, err error) {
	// Nothing is sent over the connection, and the caller verifies the chain if it has to.
	config := &tls.Config{InsecureSkipVerify: true, ServerName: host}
	config.VerifyConnection = func(state tls.ConnectionState) error {
		chain = state.PeerCertificates
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	raw, err := s.dialer().DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("webhook server is not reachable: %w", err)
	}
	if host == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return chain, fmt.Errorf("webhook server is not reachable: %w", err)
	}
	if err := conn.Close(); err != nil {
		return chain, fmt.Errorf("webhook server is not reachable: closing connection: %w", err)
	}
	return chain, nil
}

// dialer connects to a server.
type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// dialer returns what connects to this server: its listener, if that has the method, as one in memory
// does.
func (s *DefaultServer) dialer() dialer {
	if d, ok := s.Options.Listener.(dialer); ok {
		return d
	}
	return &net.Dialer{}
}

// readPool returns the certificates in a file.
func readPool(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read client CA cert: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("failed to append client CA cert to CA pool: %s has no certificate in PEM", file)
	}
	return pool, nil
}
