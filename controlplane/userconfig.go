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

// UserConfig returns the configuration of a client that is the user of that name, in these groups
// and in system:authenticated. The user need not exist, and there is no rate limit. The caller owns
// it. Requests fail when the control plane has stopped.
//
// With [Options.Listen] it is a configuration for the HTTPS server, with the user's certificate and
// key, which may be copied, changed and written to a kubeconfig. Go clients nevertheless stay in the
// process, by its WrapTransport, unless the host, the CA or the kind of transport is changed. Their requests
// are authenticated by the certificate and the token that the configuration has when the client is made, as
// over a socket. Its fields Dial and Proxy have no effect unless WrapTransport is removed.
//
// Without Listen it is like [ControlPlane.Config].
func (c *ControlPlane) UserConfig(name string, groups ...string) (*rest.Config, error) {
	if c.https == nil {
		groups = slices.Clone(groups)
		if !slices.Contains(groups, user.AllAuthenticated) {
			groups = append(groups, user.AllAuthenticated)
		}
		config := c.Config()
		config.Transport = c.transport.as(&user.DefaultInfo{Name: name, Groups: groups})
		return config, nil
	}
	pair, err := c.authority.client(name, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            c.https.url,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem(), CertData: pair.cert, KeyData: pair.key},
		QPS:             -1,
		WrapTransport:   c.WrapTransport,
	}, nil
}

// CA returns the certificate, in PEM, with which clients verify the HTTPS server: the certificate of the authority of this
// control plane, or with [Options.ServingCertificate] the last certificate of its chain.
func (c *ControlPlane) CA() []byte {
	if c.https == nil {
		return c.authority.pem()
	}
	return c.https.root
}

// WrapTransport returns a transport that serves the requests to this control plane in the process, with
// the client certificate of rt, and all others with rt. It returns rt itself if that is no
// [http.Transport], as for connections that are upgraded, or does not trust the server, and without
// [Options.Listen]. It is safe for concurrent use, and so is the transport that it returns.
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

// trustedBy reports whether a client with that configuration accepts the server's certificate.
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

// shortcut is a transport for the requests to one host that stay in the process.
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

// WrappedRoundTripper implements utilnet.RoundTripperWrapper, by which clients close idle
// connections.
func (s *shortcut) WrappedRoundTripper() http.RoundTripper { return s.other }
