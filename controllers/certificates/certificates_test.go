package certificates

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// TestKubeletRequests compares with the errors of kube-controller-manager.
func TestKubeletRequests(t *testing.T) {
	const client, serving = certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName
	node := func(change func(*x509.CertificateRequest)) *x509.CertificateRequest {
		r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}}
		if change != nil {
			change(r)
		}
		return r
	}
	dns := func(r *x509.CertificateRequest) { r.DNSNames = []string{"n"} }
	for _, tt := range []struct {
		name, signer string
		request      *x509.CertificateRequest
		usages       []certificatesv1.KeyUsage
		want         string
	}{
		{"a client", client, node(nil), []certificatesv1.KeyUsage{"digital signature", "client auth"}, ""},
		{"a client with an RSA key", client, node(nil), []certificatesv1.KeyUsage{"client auth", "key encipherment", "digital signature"}, ""},
		{"no signature", client, node(nil), []certificatesv1.KeyUsage{"client auth"}, "usages did not match [client auth digital signature key encipherment]"},
		{"DNS", client, node(dns), []certificatesv1.KeyUsage{"digital signature", "client auth"}, "DNS subjectAltNames are not allowed"},
		{"email", client, node(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }), nil, "Email subjectAltNames are not allowed"},
		{"IP", client, node(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4zero} }), nil, "IP subjectAltNames are not allowed"},
		{"URI", client, node(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{}} }), nil, "URI subjectAltNames are not allowed"},
		{"a user", client, node(func(r *x509.CertificateRequest) { r.Subject.CommonName = "ann" }), nil, "subject common name does not begin with system:node:"},
		{"a group", client, node(func(r *x509.CertificateRequest) { r.Subject.Organization = nil }), nil, "subject organization is not system:nodes"},
		{"a server", serving, node(dns), []certificatesv1.KeyUsage{"digital signature", "server auth"}, ""},
		{"a server without an address", serving, node(nil), []certificatesv1.KeyUsage{"digital signature", "server auth"}, "DNS or IP subjectAltName is required"},
		{"a server with client auth", serving, node(dns), []certificatesv1.KeyUsage{"digital signature", "client auth"}, "usages did not match [digital signature key encipherment server auth]"},
	} {
		got := ""
		if err := signers[tt.signer](tt.request, tt.usages); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
