package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// selfSignedValidity is how long a self-signed certificate is valid. Some systems refuse those that
// are valid for more than 825 days.
const selfSignedValidity = 800 * 24 * time.Hour

// hosts returns the names and addresses that a self-signed certificate is valid for.
func (s *DefaultServer) hosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if !unspecified(s.Options.Host) {
		hosts = append(hosts, s.Options.Host)
	}
	if s.Options.SelfSigned != nil {
		hosts = append(hosts, s.Options.SelfSigned.Hosts...)
	}
	if s.Options.Install != nil && s.Options.Install.Host != "" {
		hosts = append(hosts, s.Options.Install.Host)
	}
	return hosts
}

// unspecified reports whether host is empty or an unspecified address, and so means all addresses.
func unspecified(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }

// selfSigned returns a certificate for hosts that is signed by a CA of its own. Neither key leaves
// the process, and that of the CA is dropped.
func selfSigned(hosts []string) (certificate, error) {
	pair, ca, err := sign(hosts)
	if err != nil {
		return certificate{}, fmt.Errorf("failed to sign a certificate for the webhook server: %w", err)
	}
	log().Info("Using a self-signed certificate", "hosts", hosts)
	return certificate{
		source: "the self-signed certificate",
		get:    func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair, nil },
		watch:  noWatch,
		ca:     func() []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}) },
	}, nil
}

// sign makes a CA and a certificate for hosts that it has signed.
func sign(hosts []string) (*tls.Certificate, *x509.Certificate, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := newTemplate("flyball-webhook-ca")
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	ca, err := create(template, template, caKey, caKey)
	if err != nil {
		return nil, nil, err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template = newTemplate("flyball-webhook")
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	leaf, err := create(template, ca, key, caKey)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw, ca.Raw}, PrivateKey: key, Leaf: leaf}, ca, nil
}

// create signs the certificate that template describes, for key, with the key of its issuer.
func create(template, issuer *x509.Certificate, key, issuerKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, issuerKey)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// newTemplate returns what the CA and its certificates have in common.
func newTemplate(name string) *x509.Certificate {
	var serial [15]byte
	rand.Read(serial[:]) // never fails
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial[:]),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(selfSignedValidity),
		BasicConstraintsValid: true,
	}
}
