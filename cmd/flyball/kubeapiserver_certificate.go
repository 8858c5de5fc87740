package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"flyball.dev/internal/selfsigned"
)

// servingValidity is the validity of serving certificates, as in kube-apiserver.
const servingValidity = 365 * 24 * time.Hour

// ensureServingCertificate returns the paths of the serving certificate and its key in a directory, with
// kube-apiserver's file names. If either file is missing, it creates a certificate for host and loopback, signed by a
// new CA. The certificate file includes the CA.
func ensureServingCertificate(directory, host string) (certificate, key string, err error) {
	certificate, key = filepath.Join(directory, "apiserver.crt"), filepath.Join(directory, "apiserver.key")
	_, errCertificate := os.Stat(certificate)
	_, errKey := os.Stat(key)
	if err := errors.Join(errCertificate, errKey); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return certificate, key, err
	}
	hosts := []string{"127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local"}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		hosts = append(hosts, host)
	}
	pair, err := selfsigned.New(host, servingValidity, hosts)
	if err != nil {
		return "", "", err
	}
	certificatePEM, keyPEM, err := pair.PEM()
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", "", err
	}
	if err := os.WriteFile(certificate, certificatePEM, 0o644); err != nil {
		return "", "", err
	}
	return certificate, key, os.WriteFile(key, keyPEM, 0o600)
}
