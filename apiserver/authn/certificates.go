package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
)

// maxCertificates is the size at which the cache of verified certificates is cleared.
const maxCertificates = 1024

// certificates authenticates client certificates. It verifies each certificate once and caches the user until the
// certificate expires, because verifying a signature is the most expensive part of authentication.
type certificates struct {
	verify authenticator.Request

	mu    sync.RWMutex
	known map[[sha256.Size]byte]verified
}

// verified is the result of the verification of a certificate.
type verified struct {
	response *authenticator.Response
	until    time.Time
}

func newCertificates(ca *x509.CertPool) *certificates {
	options := x509request.DefaultVerifyOptions()
	options.Roots = ca
	return &certificates{
		verify: x509request.New(options, x509request.CommonNameUserConversion),
		known:  map[[sha256.Size]byte]verified{},
	}
}

// AuthenticateRequest implements authenticator.Request.
//
//upstream:k8s.io/apiserver/pkg/authentication/request/x509.Authenticator.AuthenticateRequest
func (c *certificates) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) != 1 {
		return c.verify.AuthenticateRequest(r)
	}
	certificate := r.TLS.PeerCertificates[0]
	id := sha256.Sum256(certificate.Raw)
	c.mu.RLock()
	v, ok := c.known[id]
	c.mu.RUnlock()
	if ok && time.Now().Before(v.until) {
		return v.response, true, nil
	}
	response, ok, err := c.verify.AuthenticateRequest(r)
	if ok && err == nil {
		c.cache(id, verified{response, certificate.NotAfter})
	}
	return response, ok, err
}

// cache caches the result of a verification. If the cache is full, it is cleared first.
func (c *certificates) cache(id [sha256.Size]byte, v verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCertificates {
		clear(c.known)
	}
	c.known[id] = v
}
