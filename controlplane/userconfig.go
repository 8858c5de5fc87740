package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"slices"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

// UserConfig returns the configuration of a client with the given user name, in the given groups and in
// system:authenticated. The user need not exist, and there is no rate limit. The caller owns the configuration.
// Requests fail once the control plane has stopped.
//
// With [Options.Listen], the configuration is for the HTTPS server. It has the user's certificate and key, and may be
// copied, changed and written to a kubeconfig. Go clients nevertheless stay in the process, because of WrapTransport,
// unless the host, the CA or the type of the transport is changed. The server authenticates their requests by the
// certificate and the token that the configuration has when the client is created, as over a socket. The fields Dial
// and Proxy have no effect unless WrapTransport is removed.
//
// Without Listen, UserConfig is like [ControlPlane.Config] for another user.
func (c *ControlPlane) UserConfig(name string, groups ...string) (*rest.Config, error) {
	if c.https == nil {
		groups = slices.Clone(groups)
		if !slices.Contains(groups, user.AllAuthenticated) {
			groups = append(groups, user.AllAuthenticated)
		}
		config := c.Config()
		transport := c.transport.as(&user.DefaultInfo{Name: name, Groups: groups})
		config.Transport, config.Proxy = transport, transport.proxy()
		return config, nil
	}
	pair, err := c.identity.keys.clients.client(name, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            c.https.url,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.identity.keys.clients.pem(), CertData: pair.cert, KeyData: pair.key},
		QPS:             -1,
		WrapTransport:   c.WrapTransport,
	}, nil
}

// CA returns the certificate, in PEM, that clients verify the HTTPS server with: the certificate of this control
// plane's authority, or with [Options.ServingCertificate] the last certificate of its chain.
func (c *ControlPlane) CA() []byte {
	if c.https == nil {
		return c.identity.keys.clients.pem()
	}
	return c.https.root
}

// WrapTransport returns a transport that serves requests to this control plane in the process, with the client
// certificate of rt, and sends all other requests with rt. It returns rt itself if rt is not an [http.Transport], for
// instance for upgraded connections, if rt does not trust the server, or without [Options.Listen]. WrapTransport and
// the returned transport are safe for concurrent use.
func (c *ControlPlane) WrapTransport(rt http.RoundTripper) http.RoundTripper {
	transport := transportOf(rt)
	if c.https == nil || transport == nil || transport.TLSClientConfig == nil || !c.https.trustedBy(transport.TLSClientConfig) {
		return rt
	}
	connection := &tls.ConnectionState{HandshakeComplete: true}
	if get := transport.TLSClientConfig.GetClientCertificate; get != nil {
		pair, err := get(&tls.CertificateRequestInfo{})
		if err != nil {
			return rt // which returns the error for every request
		}
		for _, der := range pair.Certificate {
			certificate, err := x509.ParseCertificate(der)
			if err != nil {
				return rt
			}
			connection.PeerCertificates = append(connection.PeerCertificates, certificate)
		}
	}
	base, err := url.Parse(c.https.url)
	if err != nil {
		return rt
	}
	return &shortcut{host: base.Host, inProcess: c.transport.over(connection), other: rt}
}

// transportOf returns the transport that a round tripper of client-go uses, or nil.
func transportOf(rt http.RoundTripper) *http.Transport {
	for {
		switch t := rt.(type) {
		case *http.Transport:
			return t
		case utilnet.RoundTripperWrapper:
			rt = t.WrappedRoundTripper()
		default:
			return nil
		}
	}
}

// trustedBy reports whether a client with the given configuration accepts the server's certificate.
func (s *httpsServer) trustedBy(client *tls.Config) bool {
	if client.InsecureSkipVerify {
		return true
	}
	name := client.ServerName
	if name == "" {
		base, err := url.Parse(s.url)
		if err != nil {
			return false
		}
		name = base.Hostname()
	}
	chain := s.server.TLSConfig.Certificates[0].Certificate
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return false
	}
	intermediates := x509.NewCertPool()
	for _, der := range chain[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(c)
		}
	}
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: client.RootCAs, Intermediates: intermediates})
	return err == nil
}

// shortcut is a transport that serves the requests to one host in the process.
type shortcut struct {
	host      string
	inProcess *inProcess
	other     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *shortcut) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" && r.URL.Host == s.host {
		return s.inProcess.RoundTrip(r)
	}
	return s.other.RoundTrip(r)
}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper. Clients use it to close idle connections.
func (s *shortcut) WrappedRoundTripper() http.RoundTripper { return s.other }
