package envtest

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

// certificateLifetime is longer than a test runs, also in virtual time.
const certificateLifetime = 10 * 365 * 24 * time.Hour

// servingCertificate is a certificate with its key, and the CA that has signed it, all in PEM.
type servingCertificate struct {
	cert, key, ca []byte
	pair          *tls.Certificate
}

// newServingCertificate returns a certificate for names and addresses, of which empty ones are
// ignored, signed by a new CA whose key is dropped.
func newServingCertificate(hosts ...string) (*servingCertificate, error) {
	ca := certificateTemplate("envtest-webhook-ca")
	ca.IsCA = true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	leaf := certificateTemplate("envtest-webhook")
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		switch ip := net.ParseIP(host); {
		case host == "":
		case ip != nil:
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		default:
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	leaf.IPAddresses = append(leaf.IPAddresses, net.IPv4(127, 0, 0, 1), net.IPv6loopback)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return &servingCertificate{
		cert: append(block("CERTIFICATE", der), block("CERTIFICATE", caDER)...),
		key:  block("PRIVATE KEY", keyDER),
		ca:   block("CERTIFICATE", caDER),
		pair: &tls.Certificate{Certificate: [][]byte{der, caDER}, PrivateKey: key},
	}, nil
}

// certificateTemplate returns what the CA and its certificate have in common.
func certificateTemplate(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		panic(err) // the system's random source never fails
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLifetime), BasicConstraintsValid: true,
	}
}
