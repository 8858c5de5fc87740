package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// tlsConfig returns the configuration with the certificate of TLSOpts, or else that in the files,
// or else a self-signed one.
func (s *server) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	for _, change := range s.options.TLSOpts {
		change(config)
	}
	if config.GetCertificate != nil {
		return config, nil
	}
	files := &certificateFiles{
		cert: filepath.Join(s.options.CertDir, s.options.CertName),
		key:  filepath.Join(s.options.CertDir, s.options.KeyName),
	}
	_, err := files.get(nil)
	switch {
	case err == nil:
		config.GetCertificate = files.get
	case errors.Is(err, fs.ErrNotExist):
		cert, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{{127, 0, 0, 1}}, nil, "")
		if err != nil {
			return nil, fmt.Errorf("failed to generate self-signed certificate for metrics server: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("failed to create self-signed key pair for metrics server: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	default:
		return nil, err
	}
	return config, nil
}

// certificateFiles loads the certificate and its key from files. It checks their modification times
// at every handshake and reads them again if they have changed, so rotation needs no watcher. While
// they cannot be read or do not match, the previous certificate is used.
type certificateFiles struct {
	cert, key string

	mu            sync.Mutex
	pair          *tls.Certificate
	certAt, keyAt time.Time
}

func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.read(); err != nil && f.pair == nil {
		return nil, err
	}
	return f.pair, nil
}

func (f *certificateFiles) read() error {
	cert, err := os.Stat(f.cert)
	if err != nil {
		return err
	}
	key, err := os.Stat(f.key)
	if err != nil {
		return err
	}
	if f.pair != nil && cert.ModTime().Equal(f.certAt) && key.ModTime().Equal(f.keyAt) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return err
	}
	f.pair, f.certAt, f.keyAt = &pair, cert.ModTime(), key.ModTime()
	return nil
}
