package controlplane

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/apiserver/pkg/authentication/user"
)

// issued returns the certificates of a new control plane that is reached as the hosts.
func issued(t *testing.T, hosts ...string) (ca, server, client *x509.Certificate) {
	t.Helper()
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := a.server(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := a.administrator()
	if err != nil {
		t.Fatal(err)
	}
	return a.cert, pair.Leaf, fromPEM(t, admin.cert)
}

func fromPEM(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no PEM: %q", text)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestCertificates(t *testing.T) {
	ca, server, client := issued(t, "cp.example.com", "10.96.0.1", "2001:db8::1")
	if !ca.IsCA || !ca.BasicConstraintsValid || ca.KeyUsage&x509.KeyUsageCertSign == 0 || ca.KeyUsage&x509.KeyUsageCRLSign == 0 {
		t.Errorf("the authority may not sign: CA %v, usage %b", ca.IsCA, ca.KeyUsage)
	}
	serials := map[string]bool{ca.SerialNumber.String(): true}
	for _, leaf := range []*x509.Certificate{server, client} {
		name := leaf.Subject.CommonName
		if bytes.Equal(leaf.RawSubject, ca.RawSubject) {
			t.Errorf("%s has the subject of its issuer, so it passes for self-signed", name)
		}
		if !bytes.Equal(leaf.RawIssuer, ca.RawSubject) {
			t.Errorf("%s names the issuer %s; want %s", name, leaf.Issuer, ca.Subject)
		}
		if leaf.IsCA || !leaf.BasicConstraintsValid {
			t.Errorf("%s: CA %v, basic constraints %v; want a certificate that is explicitly no authority", name, leaf.IsCA, leaf.BasicConstraintsValid)
		}
		if len(leaf.SubjectKeyId) == 0 || bytes.Equal(leaf.SubjectKeyId, ca.SubjectKeyId) || !bytes.Equal(leaf.AuthorityKeyId, ca.SubjectKeyId) {
			t.Errorf("%s: key %x, signed with key %x; the authority's is %x", name, leaf.SubjectKeyId, leaf.AuthorityKeyId, ca.SubjectKeyId)
		}
		if leaf.KeyUsage != x509.KeyUsageDigitalSignature {
			t.Errorf("%s may be used for %b; want digital signatures", name, leaf.KeyUsage)
		}
		if serials[leaf.SerialNumber.String()] {
			t.Errorf("%s has a serial number that is taken", name)
		}
		serials[leaf.SerialNumber.String()] = true
	}
	if !slices.Equal(server.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("the server's certificate is for %v", server.ExtKeyUsage)
	}
	if !slices.Equal(client.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) || !slices.Equal(client.Subject.Organization, []string{user.SystemPrivilegedGroup}) {
		t.Errorf("the administrator's certificate is for %v, in groups %v", client.ExtKeyUsage, client.Subject.Organization)
	}
	for _, host := range []string{
		"cp.example.com", "localhost", "127.0.0.1", "::1", "10.96.0.1", "2001:db8::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	} {
		if err := server.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

func TestCertificateForAllAddresses(t *testing.T) {
	_, server, _ := issued(t, "0.0.0.0")
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if err := server.VerifyHostname(a.(*net.IPNet).IP.String()); err != nil {
			t.Error(err)
		}
	}
	if server.VerifyHostname("0.0.0.0") == nil {
		t.Error("the certificate has an unspecified address")
	}
}

// TestOpenSSLVerifies verifies the certificates with another implementation than Go's.
func TestOpenSSLVerifies(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("there is no openssl")
	}
	ca, server, client := issued(t, "127.0.0.1", "10.96.0.1")
	dir := t.TempDir()
	write := func(name string, cert *x509.Certificate) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	authority := write("ca.pem", ca)
	for _, args := range [][]string{
		{"-purpose", "sslserver", "-verify_hostname", "kubernetes.default.svc", write("server.pem", server)},
		{"-purpose", "sslserver", "-verify_ip", "10.96.0.1", write("server.pem", server)},
		{"-purpose", "sslclient", write("client.pem", client)},
	} {
		out, err := exec.CommandContext(t.Context(), openssl, append([]string{"verify", "-x509_strict", "-check_ss_sig", "-CAfile", authority}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("openssl verify %v: %v\n%s", args, err, out)
		}
	}
}

// TestCurlConnects sends a request with a client that uses OpenSSL.
func TestCurlConnects(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("there is no curl")
	}
	plane, err := Start(t.Context(), Options{Listen: "127.0.0.1:0", WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, cert, key := file("ca", cfg.CAData), file("cert", cfg.CertData), file("key", cfg.KeyData)
	for _, version := range []string{"--http1.1", "--http2"} {
		out, err := exec.CommandContext(t.Context(), curl, "--silent", "--show-error", "--fail", "--noproxy", "*", version,
			"--cacert", ca, "--cert", cert, "--key", key, plane.URL()+"/api/v1/namespaces/default").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(`"name": "default"`)) {
			t.Errorf("curl %s: %v\n%s", version, err, out)
		}
	}
}
