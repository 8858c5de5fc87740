package authn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// ca signs certificates for the tests.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCA(t *testing.T) *ca {
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	c := &ca{}
	c.cert, c.key = c.sign(t, template)
	return c
}

func (c *ca) sign(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	template.NotBefore = time.Now().Add(-time.Minute)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := c.cert, c.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (c *ca) client(t *testing.T, name string, groups ...string) *x509.Certificate {
	cert, _ := c.sign(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return cert
}

func request(cert *x509.Certificate, token string, inside user.Info) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if cert != nil {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if inside != nil {
		r = r.WithContext(WithUser(r.Context(), inside))
	}
	return r
}

func TestAuthenticate(t *testing.T) {
	ours, theirs := newCA(t), newCA(t)
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	auth := New(Config{ClientCA: pool, Tokens: map[string]*user.DefaultInfo{"secret": {Name: "bot", Groups: []string{"bots"}}}})
	inside := &user.DefaultInfo{Name: "inside", Groups: []string{user.SystemPrivilegedGroup}}
	alice := ours.client(t, "alice", "people")
	for _, tc := range []struct {
		name    string
		request *http.Request
		want    string // the user and the groups, or empty for a refusal
	}{
		{"certificate", request(alice, "", nil), "alice people system:authenticated"},
		{"the same certificate again", request(alice, "", nil), "alice people system:authenticated"},
		{"certificate of another CA", request(theirs.client(t, "alice"), "", nil), ""},
		{"token", request(nil, "secret", nil), "bot bots system:authenticated"},
		{"unknown token", request(nil, "guess", nil), ""},
		{"in-process", request(nil, "", inside), "inside system:masters system:authenticated"},
		{"in-process with a token", request(nil, "secret", inside), "bot bots system:authenticated"},
		{"in-process with an unknown token", request(nil, "guess", inside), ""},
		{"nothing", request(nil, "", nil), "system:anonymous system:unauthenticated"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if resp, ok, err := auth.AuthenticateRequest(tc.request); ok && err == nil {
				got = strings.Join(append([]string{resp.User.GetName()}, resp.User.GetGroups()...), " ")
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCertificateIsVerifiedOnceUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newCA(t)
		pool := x509.NewCertPool()
		pool.AddCert(ours.cert)
		c := newCertificates(pool)
		verifications, verify := 0, c.verify
		c.verify = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
			verifications++
			return verify.AuthenticateRequest(r)
		})
		alice := ours.client(t, "alice")
		for range 3 {
			if _, ok, err := c.AuthenticateRequest(request(alice, "", nil)); !ok || err != nil {
				t.Fatalf("refused: %v", err)
			}
		}
		if verifications != 1 {
			t.Errorf("verified %d times, want once", verifications)
		}
		time.Sleep(2 * time.Hour)
		if _, ok, err := c.AuthenticateRequest(request(alice, "", nil)); ok || err == nil {
			t.Error("an expired certificate was accepted")
		}
		for range maxCertificates + 1 {
			c.cache([32]byte{byte(len(c.known)), byte(len(c.known) >> 8)}, verified{})
		}
		if len(c.known) > maxCertificates {
			t.Errorf("%d certificates are cached", len(c.known))
		}
	})
}
