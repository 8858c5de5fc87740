// Package authn answers the first question about a request: who is it?
//
// A client certificate or a bearer token names the user. A request that brings neither is the
// in-process user that its transport vouches for, or else anonymous. Credentials that are wrong are
// refused and never fall through to a weaker identity.
package authn

import (
	"context"
	"crypto/x509"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Config says whom to believe. The zero value believes nobody but in-process transports.
type Config struct {
	// ClientCA signs client certificates: the common name is the user, each organization a group.
	ClientCA *x509.CertPool
	// Tokens are the bearer tokens that are known, each with its user.
	Tokens map[string]*user.DefaultInfo
}

// New returns an authenticator that always finds a user or an error.
func New(c Config) authenticator.Request {
	var ways []authenticator.Request
	if c.ClientCA != nil {
		ways = append(ways, newCertificates(c.ClientCA))
	}
	ways = append(ways,
		bearertoken.New(tokenfile.New(c.Tokens)),
		authenticator.RequestFunc(inProcess),
		anonymous.NewAuthenticator(nil),
	)
	return group.NewAuthenticatedGroupAdder(union.NewFailOnError(ways...))
}

type userKey struct{}

// WithUser makes u the user of requests with the returned context that bring no credentials of their
// own. Only in-process transports can use it: a request that arrived over a socket has no such value.
func WithUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

func inProcess(r *http.Request) (*authenticator.Response, bool, error) {
	u, ok := r.Context().Value(userKey{}).(user.Info)
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: u}, true, nil
}
