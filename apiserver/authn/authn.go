// Package authn authenticates requests.
//
// The client certificate or the bearer token names the user. A request without credentials has the user of its
// in-process transport, or else is anonymous. Invalid credentials are an error: the request does not become anonymous.
//
// A client certificate is verified once, and its user is cached.
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

// Config configures the authenticators. The zero value authenticates in-process transports and anonymous requests only.
type Config struct {
	// ClientCA signs client certificates. The common name is the user, and each organization is a group.
	ClientCA *x509.CertPool
	// Tokens maps bearer tokens to users.
	Tokens map[string]*user.DefaultInfo
	// ServiceAccounts, if not nil, authenticates the tokens of service accounts.
	ServiceAccounts authenticator.Token
	// Bootstrap, if not nil, authenticates bootstrap tokens.
	Bootstrap authenticator.Token
	// Audiences are the audiences of the API server. All of Tokens are valid for them.
	Audiences authenticator.Audiences
	// RequestHeader, if not nil, authenticates users by headers from a trusted proxy.
	RequestHeader *RequestHeader
	// WithoutAnonymous refuses requests without credentials.
	WithoutAnonymous bool
}

// RequestHeader configures the headers in which a proxy sends the user, and the client certificate of the proxy.
type RequestHeader struct {
	// ClientCA signs the client certificates of proxies.
	ClientCA *x509.CertPool
	// AllowedNames are the accepted common names of the certificates. An empty list accepts all names.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders are the headers with the user's attributes. ExtraHeaderPrefixes are
	// the prefixes of the headers with extra fields.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraHeaderPrefixes []string
}

// authenticator returns the authenticator of the headers. It ignores the headers of a client that is not a trusted
// proxy, so that the client's own credentials decide.
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

// New returns an authenticator. For a request without credentials it returns the anonymous user, or no user if
// anonymous users are disabled. For all other requests it returns a user or an error.
//
//upstream:pkg/kubeapiserver/authenticator.Config.New
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

// userKey is the context key of the user of an in-process request.
type userKey struct{}

// WithUser makes u the user of requests with the returned context and without credentials. Only in-process transports
// can use it, because the context of a request from a socket has no such value.
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
