package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"flyball.dev/ctrl/certwatcher"
	"flyball.dev/internal/selfsigned"
)

// selfSignedValidity is how long a self-signed certificate is valid.
const selfSignedValidity = 365 * 24 * time.Hour

// tlsConfig finds the certificate: the one of TLSOpts, else the one in the files, else one that it
// makes. The watcher of the files is to be run by the caller; it is nil if there are none.
func (s *server) tlsConfig() (*tls.Config, *certwatcher.CertWatcher, error) {
	config := &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	for _, change := range s.options.TLSOpts {
		change(config)
	}
	if config.GetCertificate != nil {
		return config, nil, nil
	}
	watcher, err := certwatcher.New(
		filepath.Join(s.options.CertDir, s.options.CertName), filepath.Join(s.options.CertDir, s.options.KeyName))
	switch {
	case err == nil:
		config.GetCertificate = watcher.GetCertificate
		return config, watcher, nil
	case errors.Is(err, fs.ErrNotExist):
		pair, err := selfsigned.New("localhost", selfSignedValidity, []string{"localhost", "127.0.0.1"})
		if err != nil {
			return nil, nil, fmt.Errorf("failed to generate self-signed certificate for metrics server: %w", err)
		}
		config.Certificates = []tls.Certificate{*pair.Certificate}
		return config, nil, nil
	default:
		return nil, nil, err
	}
}
