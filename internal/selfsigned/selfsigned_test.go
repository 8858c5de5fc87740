package selfsigned

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

// TestNew: the files of a certificate can be served, and clients that trust the CA, or the file of the
// certificate, accept it for its hosts and no others.
func TestNew(t *testing.T) {
	pair, err := New("test", time.Hour, []string{"localhost", "127.0.0.1", "::1"})
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := pair.PEM()
	if err != nil {
		t.Fatal(err)
	}
	served, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	if len(served.Certificate) != 2 {
		t.Errorf("the chain has %d certificates", len(served.Certificate))
	}
	for name, trusted := range map[string][]byte{"the CA": pair.CAPEM(), "the file of the certificate": certificate} {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(trusted)
		for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "example.com": false} {
			_, err := served.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
			if (err == nil) != want {
				t.Errorf("with %s, %s: %v", name, host, err)
			}
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pair.CAPEM())
	if _, err := served.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: time.Now().Add(2 * time.Hour)}); err == nil {
		t.Error("it does not expire")
	}
}
