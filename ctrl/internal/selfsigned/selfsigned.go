// Package selfsigned makes serving certificates that are signed by a CA of their own.
package selfsigned

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"time"
)

// New makes a CA, and a serving certificate for hosts, which are names and addresses, that it has
// signed. It returns the certificate with its chain and key, and the CA, whose key is dropped. Their
// subjects are name, and for the CA name with the suffix -ca.
func New(name string, validity time.Duration, hosts []string) (*tls.Certificate, *x509.Certificate, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := newTemplate(name+"-ca", validity)
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
	template = newTemplate(name, validity)
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
func newTemplate(name string, validity time.Duration) *x509.Certificate {
	var serial [15]byte
	rand.Read(serial[:]) // never fails
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial[:]),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
	}
}
