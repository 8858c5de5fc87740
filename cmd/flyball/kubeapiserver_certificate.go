package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// ensureServingCertificate returns the paths of the serving certificate in a directory and of its
// key, by kube-apiserver's names. If one of them does not exist, it creates a self-signed
// certificate for a host and loopback, which is valid for a year.
func ensureServingCertificate(directory, host string) (certificate, key string, err error) {
	certificate, key = filepath.Join(directory, "apiserver.crt"), filepath.Join(directory, "apiserver.key")
	_, errCertificate := os.Stat(certificate)
	_, errKey := os.Stat(key)
	if err := errors.Join(errCertificate, errKey); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return certificate, key, err
	}
	certificatePEM, keyPEM, err := selfSigned(host)
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

// selfSigned returns a new serving certificate and its key in PEM.
func selfSigned(host string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: host},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(365 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true, // of itself
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local"},
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		template.IPAddresses = append(template.IPAddresses, ip)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), err
}
