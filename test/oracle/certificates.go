package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// writeCertificates writes what kube-apiserver needs into a directory: an authority, certificates
// of the server and of an administrator, and the key of service account tokens.
func writeCertificates(dir string) error {
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey, err := writeCertificate(dir, "ca", ca, ca, nil)
	if err != nil {
		return err
	}
	for name, template := range map[string]*x509.Certificate{
		"server": {
			SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		"admin": {
			SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
	} {
		if _, err := writeCertificate(dir, name, template, ca, caKey); err != nil {
			return err
		}
	}
	accounts, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return writeKey(dir, "accounts", accounts)
}

// writeCertificate writes a certificate and its key. Without a key of the parent it signs itself.
func writeCertificate(dir, name string, template, parent *x509.Certificate, parentKey crypto.Signer) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if parentKey == nil {
		parentKey = key
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	certificate, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, err
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), encoded, 0o600); err != nil {
		return nil, err
	}
	return key, writeKey(dir, name, key)
}

func writeKey(dir, name string, key crypto.Signer) error {
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600)
}
