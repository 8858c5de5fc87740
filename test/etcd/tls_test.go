package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flyball.dev/internal/reserve/reservetest"
	"flyball.dev/storage"
	"flyball.dev/storage/etcd"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key}
}

// pool returns a pool with the authority alone.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// sign returns a certificate for 127.0.0.1, and the names of its files.
func (a *authority) sign(t testing.TB) (pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, content := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return pair, certFile, keyFile
}

// TestTLS opens stores in a cluster that requires certificates of clients. With the wrong ones, the error says why.
func TestTLS(t *testing.T) {
	a, foreign := newAuthority(t), newAuthority(t)
	client, _, _ := a.sign(t)
	stranger, _, _ := foreign.sign(t)
	_, certFile, keyFile := a.sign(t)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, url, peer := t.TempDir(), "https://"+reservetest.Address(t), "http://"+reservetest.Address(t)
	c := &cluster{t: t}
	m := &process{url: url, log: filepath.Join(dir, "log"), args: []string{"--name=m", "--data-dir=" + filepath.Join(dir, "m"), "--unsafe-no-fsync",
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url, "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=m=" + peer, "--log-level=warn", "--cert-file=" + certFile, "--key-file=" + keyFile, "--trusted-ca-file=" + caFile, "--client-cert-auth"}}
	c.start(m)
	defer c.kill(m)
	open := func(endpoint string, config *tls.Config) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		s, err := etcd.Open(ctx, etcd.Options{Endpoints: []string{endpoint}, TLS: config})
		if err != nil {
			return err
		}
		_, err = s.Put(ctx, storage.Write{Key: "/registry/a", If: storage.Any})
		if closed := s.Close(); err == nil {
			err = closed
		}
		return err
	}
	good := &tls.Config{RootCAs: a.pool(), Certificates: []tls.Certificate{client}}
	eventually(t, "a store", func() error { return open(url, good) })
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for name, test := range map[string]struct {
		endpoint string
		config   *tls.Config
		want     string
	}{
		"another authority":         {url, &tls.Config{RootCAs: foreign.pool(), Certificates: []tls.Certificate{client}}, "certificate signed by unknown authority"},
		"no authority":              {url, nil, "certificate signed by unknown authority"},
		"no client certificate":     {url, &tls.Config{RootCAs: a.pool()}, "tls: certificate required"},
		"another client":            {url, &tls.Config{RootCAs: a.pool(), Certificates: []tls.Certificate{stranger}}, "remote error: tls: "},
		"another name":              {strings.Replace(url, "127.0.0.1", "localhost", 1), good, "not valid for any names, but wanted to match localhost"},
		"http":                      {strings.Replace(url, "https", "http", 1), nil, "etcd cannot be reached: http://"},
		"a server that is not etcd": {web.URL, nil, "etcd cannot be reached: " + web.URL},
	} {
		if err := open(test.endpoint, test.config); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
}
