// Package authn authenticates requests.
//
// The client certificate or the bearer token names the user. A request without credentials has
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
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
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
	// RequestHeader, if not nil, authenticates users by headers that a trusted proxy sends.
	RequestHeader *RequestHeader
	// WithoutAnonymous refuses requests without credentials.
	WithoutAnonymous bool
}

// RequestHeader are the headers in which a proxy sends the user, and the certificate that it must
// present.
type RequestHeader struct {
	// ClientCA signs the client certificates of proxies.
	ClientCA *x509.CertPool
	// AllowedNames are the common names of these certificates; without any, all are allowed.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders have the parts of the user, ExtraHeaderPrefixes
	// the beginnings of the names of headers with its extra fields.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraHeaderPrefixes []string
}

// authenticator returns the authenticator of the headers. Those of a client that is not a trusted
// proxy are ignored, and its own credentials decide.
func (h *RequestHeader) authenticator() authenticator.Request {
	options := x509request.DefaultVerifyOptions()
	options.Roots = h.ClientCA
	list := func(names []string) headerrequest.StringSliceProvider { return headerrequest.StaticStringSlice(names) }
	headers := headerrequest.NewDynamicVerifyOptionsSecure(
		func() (x509.VerifyOptions, bool) { return options, true },
		list(h.AllowedNames), list(h.UsernameHeaders), list(h.UIDHeaders), list(h.GroupHeaders), list(h.ExtraHeaderPrefixes))
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := headers.AuthenticateRequest(r)
		return response, ok && err == nil, nil
	})
}

// New returns an authenticator that returns a user or an error for every request, or neither for one
// without credentials if there are no anonymous users.
func New(c Config) authenticator.Request {
	var authenticators []authenticator.Request
	if c.RequestHeader != nil {
		authenticators = append(authenticators, c.RequestHeader.authenticator())
	}
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
	)
	if !c.WithoutAnonymous {
		authenticators = append(authenticators, anonymous.NewAuthenticator(nil))
	}
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
