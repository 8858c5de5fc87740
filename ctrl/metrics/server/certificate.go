package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"

	"flyball.dev/ctrl/certwatcher"
)

// tlsConfig finds the certificate: that of TLSOpts, else the one in the files, else one that it
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
		pair, err := selfSigned()
		if err != nil {
			return nil, nil, err
		}
		config.Certificates = []tls.Certificate{pair}
		return config, nil, nil
	default:
		return nil, nil, err
	}
}

func selfSigned() (tls.Certificate, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{{127, 0, 0, 1}}, nil, "")
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("failed to generate self-signed certificate for metrics server: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("failed to create self-signed key pair for metrics server: %w", err)
	}
	return pair, nil
}
