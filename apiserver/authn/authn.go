// Package authn authenticates requests.
//
// The user is that of the client certificate or the bearer token. A request without credentials has
// the user of its in-process transport, or else is anonymous. Invalid credentials are an error and
// never fall through to a weaker identity.
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
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Config configures the authenticators. The zero value has those of in-process transports and
// anonymous requests only.
type Config struct {
	// ClientCA signs client certificates: the common name is the user, each organization a group.
	ClientCA *x509.CertPool
	// Tokens maps bearer tokens to users.
	Tokens map[string]*user.DefaultInfo
	// ServiceAccounts, if not nil, authenticates the tokens of service accounts.
	ServiceAccounts authenticator.Token
	// Bootstrap, if not nil, authenticates bootstrap tokens.
	Bootstrap authenticator.Token
	// Audiences are the audiences of the API server, for which all of Tokens are valid.
	Audiences authenticator.Audiences
}

// New returns an authenticator that returns a user or an error for every request.
func New(c Config) authenticator.Request {
	var authenticators []authenticator.Request
	if c.ClientCA != nil {
		authenticators = append(authenticators, newCertificates(c.ClientCA))
	}
	tokens := []authenticator.Token{authenticator.WrapAudienceAgnosticToken(c.Audiences, tokenfile.New(c.Tokens))}
	if c.ServiceAccounts != nil {
		tokens = append(tokens, c.ServiceAccounts)
	}
	if c.Bootstrap != nil {
		tokens = append(tokens, authenticator.WrapAudienceAgnosticToken(c.Audiences, c.Bootstrap))
	}
	authenticators = append(authenticators,
		bearertoken.New(tokenunion.New(tokens...)),
		authenticator.RequestFunc(inProcess),
		anonymous.NewAuthenticator(nil),
	)
	return group.NewAuthenticatedGroupAdder(union.NewFailOnError(authenticators...))
}

// userKey is the key of the user in the context of an in-process request.
type userKey struct{}

// WithUser makes u the user of requests with the returned context that have no credentials. Only
// in-process transports can use it: a request that arrives over a socket has no such value.
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
