package webhook

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"flyball.dev/internal/selfsigned"
)

// selfSignedValidity is how long a self-signed certificate is valid. Some systems refuse those that
// are valid for more than 825 days.
const selfSignedValidity = 800 * 24 * time.Hour

// hosts returns the names and addresses that a self-signed certificate is valid for.
func (s *DefaultServer) hosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if !unspecified(s.Options.Host) {
		hosts = append(hosts, s.Options.Host)
	}
	if s.Options.SelfSigned != nil {
		hosts = append(hosts, s.Options.SelfSigned.Hosts...)
	}
	if s.Options.Install != nil && s.Options.Install.Host != "" {
		hosts = append(hosts, s.Options.Install.Host)
	}
	return hosts
}

// unspecified reports whether host is empty or an unspecified address, and so means all addresses.
func unspecified(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }

// selfSigned returns a certificate for hosts that is signed by a CA of its own. Neither key leaves
// the process, and the key of the CA is dropped.
func selfSigned(hosts []string) (certificate, error) {
	pair, err := selfsigned.New("flyball-webhook", selfSignedValidity, hosts)
	if err != nil {
		return certificate{}, fmt.Errorf("failed to sign a certificate for the webhook server: %w", err)
	}
	log().Info("Using a self-signed certificate", "hosts", hosts)
	return certificate{
		source: "the self-signed certificate",
		get:    func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Certificate, nil },
		watch:  noWatch,
		ca:     pair.CAPEM,
	}, nil
}
