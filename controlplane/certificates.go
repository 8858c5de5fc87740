package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/apiserver"
)

// The validity of certificates is the same as in a cluster of kubeadm.
const (
	certificateLifetime = 365 * 24 * time.Hour
	authorityLifetime   = 10 * certificateLifetime
)

// authority is a certificate authority of a control plane. Its private key is in the storage, and in no object.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// keyPair is a PEM-encoded certificate and private key.
type keyPair struct{ cert, key []byte }

// newAuthority returns an authority with a new key.
func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate("flyball-ca")
	template.IsCA = true
	template.NotAfter = template.NotBefore.Add(authorityLifetime)
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key}, err
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// serverNames are the DNS names of every API server, within the cluster and on its host.
var serverNames = []string{
	"localhost",
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
}

// checkServingNames returns an error if a name cannot be in a serving certificate.
//
//upstream:cmd/kubeadm/app/apis/kubeadm/validation.ValidateCertSANs
func checkServingNames(names []string) error {
	for _, name := range names {
		lower := strings.ToLower(name)
		if len(validation.IsDNS1123Subdomain(lower)) > 0 && len(validation.IsWildcardDNS1123Subdomain(lower)) > 0 && net.ParseIP(name) == nil {
			return fmt.Errorf("%q is neither a DNS name nor an IP address for the serving certificate", name)
		}
	}
	return nil
}

// server signs a serving certificate for serverNames, loopback and hosts. Each host is a DNS name or an IP address. An
// unspecified address stands for all addresses of this host.
func (a *authority) server(hosts ...string) (tls.Certificate, error) {
	template := certificate("kube-apiserver")
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = slices.Clone(serverNames)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	for _, host := range hosts {
		switch ip := net.ParseIP(host); {
		case host == "" || ip.IsUnspecified():
			names, addresses := thisHost()
			template.DNSNames = append(template.DNSNames, names...)
			template.IPAddresses = append(template.IPAddresses, addresses...)
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		default:
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	template.DNSNames = distinct(template.DNSNames, func(name string) string { return name })
	template.IPAddresses = distinct(template.IPAddresses, net.IP.String)
	pair, err := a.sign(template)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(pair.cert, pair.key)
}

// thisHost returns the known names of this host, and its addresses except loopback.
func thisHost() (names []string, addresses []net.IP) {
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	networks, _ := net.InterfaceAddrs()
	for _, network := range networks {
		if n, ok := network.(*net.IPNet); ok && !n.IP.IsLoopback() {
			addresses = append(addresses, n.IP)
		}
	}
	return names, addresses
}

// distinct removes the elements that have the same key as an earlier element, in place.
func distinct[T any](list []T, key func(T) string) []T {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(element T) bool {
		duplicate := seen[key(element)]
		seen[key(element)] = true
		return duplicate
	})
}

// administrator signs a client certificate for a member of system:masters.
func (a *authority) administrator() (keyPair, error) {
	return a.client("flyball-admin", user.SystemPrivilegedGroup)
}

// client signs a client certificate for a user.
func (a *authority) client(name string, groups ...string) (keyPair, error) {
	template := certificate(name)
	template.Subject.Organization = groups
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

// aggregation returns the client certificate for requests to extension API servers.
func (c *credentials) aggregation() (apiserver.Aggregation, error) {
	template := certificate(apiserver.ProxyClient)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	pair, err := c.proxies.sign(template)
	return apiserver.Aggregation{ClientCA: c.clients.pem(), CA: c.proxies.pem(), Certificate: pair.cert, Key: pair.key}, err
}

// sign completes a template with a new key and signs it.
func (a *authority) sign(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if template.SubjectKeyId, err = keyID(&key.PublicKey); err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return keyPair{}, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// keyID returns the identifier of a key: the first 160 bits of its SHA-256 digest (RFC 7093).
func keyID(key *ecdsa.PublicKey) ([]byte, error) {
	point, err := key.Bytes()
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(point)
	return digest[:20], nil
}

// certificate returns a template with the common fields of all certificates. Each certificate must have a different
// subject, because verifiers treat a certificate with the subject of its issuer as self-signed.
func certificate(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		panic(err) // the system's random source never fails
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(certificateLifetime),
		BasicConstraintsValid: true,
	}
}
