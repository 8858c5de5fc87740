package envtest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	"flyball.dev/ctrl/internal/selfsigned"
)

// certificateLifetime is longer than a test runs, also in virtual time.
const certificateLifetime = 10 * 365 * 24 * time.Hour

// servingCertificate is a certificate with its key, and the CA that has signed it, all in PEM.
type servingCertificate struct {
	cert, key, ca []byte
	pair          *tls.Certificate
}

// newServingCertificate returns a certificate for loopback, and for names and addresses, of which
// empty ones are ignored, signed by a new CA whose key is dropped.
func newServingCertificate(hosts ...string) (*servingCertificate, error) {
	hosts = slices.DeleteFunc(hosts, func(host string) bool { return host == "" })
	pair, ca, err := selfsigned.New("envtest-webhook", certificateLifetime, append(hosts, "127.0.0.1", "::1"))
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, err
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return &servingCertificate{
		cert: append(block("CERTIFICATE", pair.Leaf.Raw), block("CERTIFICATE", ca.Raw)...),
		key:  block("PRIVATE KEY", key),
		ca:   block("CERTIFICATE", ca.Raw),
		pair: pair,
	}, nil
}
