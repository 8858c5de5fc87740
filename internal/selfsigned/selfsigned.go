// Package selfsigned creates serving certificates, each signed by its own new CA.
package selfsigned

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Pair is a serving certificate and the CA that signed it. The private key of the CA is discarded.
type Pair struct {
	// Certificate is the certificate with its chain, which includes the CA, and its key.
	Certificate *tls.Certificate
	CA          *x509.Certificate
}

// New returns a certificate for hosts, which are DNS names and IP addresses, signed by a new CA. The common name of the
// certificate is name, and the CA's is name with the suffix -ca.
func New(name string, validity time.Duration, hosts []string) (*Pair, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate(name+"-ca", validity)
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	ca, err := create(template, template, caKey, caKey)
	if err != nil {
		return nil, err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
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
		return nil, err
	}
	return &Pair{&tls.Certificate{Certificate: [][]byte{leaf.Raw, ca.Raw}, PrivateKey: key, Leaf: leaf}, ca}, nil
}

// PEM returns the certificate with its chain, and the key, in PEM.
func (p *Pair) PEM() (certificate, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.Certificate.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range p.Certificate.Certificate {
		certificate = append(certificate, block("CERTIFICATE", c)...)
	}
	return certificate, block("PRIVATE KEY", der), nil
}

// CAPEM returns the certificate of the CA in PEM.
func (p *Pair) CAPEM() []byte { return block("CERTIFICATE", p.CA.Raw) }

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// create returns a certificate for key with the fields of template, signed by the issuer.
func create(template, issuer *x509.Certificate, key, issuerKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, issuerKey)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// newTemplate returns a template with the common fields of the CA and its certificates.
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
