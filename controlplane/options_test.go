//lint:file-ignore SA1019 Clients may still read the deprecated Endpoints of the Service.

package controlplane_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/serviceaccount"
	"flyball.dev/controlplane"
)

// testAuthority signs certificates.
type testAuthority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newTestAuthority(t *testing.T, name string) *testAuthority {
	a := &testAuthority{t: t}
	pair := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	a.cert, a.key = controlplanetest.Must[*x509.Certificate](t)(x509.ParseCertificate(pair.Certificate[0])), pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// sign returns a certificate by the authority, or of itself if there is none yet.
func (a *testAuthority) sign(template *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key := controlplanetest.Must[*ecdsa.PrivateKey](a.t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der := controlplanetest.Must[[]byte](a.t)(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *testAuthority) client(name string, groups ...string) tls.Certificate {
	return a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

func certificatePEM(c tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
}

// restConfig returns the configuration of a client with a certificate.
func restConfig(t *testing.T, url string, root []byte, c tls.Certificate) *rest.Config {
	t.Helper()
	der := controlplanetest.Must[[]byte](t)(x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey)))
	return &rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{CAData: root, CertData: certificatePEM(c),
		KeyData: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})}}
}

func whoIs(t *testing.T, cfg *rest.Config) (string, error) {
	t.Helper()
	client := controlplanetest.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(cfg))
	got, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	u := got.Status.UserInfo
	return strings.Join(strings.Fields(u.Username+" "+u.UID+" "+strings.Join(u.Groups, " ")), " "), nil
}

// TestOptionsOfAServer starts a control plane with certificates, keys and networks of its user's,
// and uses each.
func TestOptionsOfAServer(t *testing.T) {
	servers, clients, proxies := newTestAuthority(t, "servers"), newTestAuthority(t, "clients"), newTestAuthority(t, "proxies")
	serving := servers.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "api"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	root := certificatePEM(tls.Certificate{Certificate: [][]byte{servers.cert.Raw}})
	serving.Certificate = append(serving.Certificate, servers.cert.Raw)
	proxyPool := x509.NewCertPool()
	proxyPool.AddCert(proxies.cert)
	key := controlplanetest.Must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	plane, err := controlplane.Start(t.Context(), controlplane.Options{
		Listen:             "127.0.0.1:0",
		WithoutControllers: true,
		ServingCertificate: &serving,
		ClientCA:           certificatePEM(tls.Certificate{Certificate: [][]byte{clients.cert.Raw}}),
		RequestHeader: &authn.RequestHeader{ClientCA: proxyPool, AllowedNames: []string{"proxy"},
			UsernameHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"}, GroupHeaders: []string{"X-Remote-Group"}},
		WithoutAnonymous: true,
		AdvertiseAddress: netip.MustParseAddr("198.51.100.7"),
		ServiceAccounts:  serviceaccount.Options{Issuers: []string{"https://issuer"}, Audiences: []string{"api"}, SigningKey: key},
		ServiceNetwork:   netip.MustParsePrefix("10.0.0.5/24"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	admin, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()

	for name, cfg := range map[string]*rest.Config{
		"ann staff system:authenticated":                    restConfig(t, plane.URL(), root, clients.client("ann", "staff")),
		"flyball-admin system:masters system:authenticated": controlplanetest.Must[*rest.Config](t)(clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig())),
	} {
		if got, err := whoIs(t, cfg); err != nil || got != name {
			t.Errorf("got %s, %v; want %s", got, err, name)
		}
	}
	by := func(c tls.Certificate) *rest.Config {
		cfg := restConfig(t, plane.URL(), root, c)
		cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			return transport.NewAuthProxyRoundTripper("bob", "b1", []string{"people"}, nil, rt)
		})
		return cfg
	}
	if got, err := whoIs(t, by(proxies.client("proxy"))); err != nil || got != "bob b1 people system:authenticated" {
		t.Errorf("by a proxy: %s, %v", got, err)
	}
	if got, err := whoIs(t, by(proxies.client("other"))); !apierrors.IsUnauthorized(err) {
		t.Errorf("by a proxy of another name: %s, %v", got, err)
	}
	if got, err := whoIs(t, by(clients.client("ann"))); err != nil || got != "ann system:authenticated" {
		t.Errorf("by a client that is no proxy: %s, %v", got, err)
	}
	none := &rest.Config{Host: plane.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: root}}
	if got, err := whoIs(t, none); !apierrors.IsUnauthorized(err) {
		t.Errorf("without credentials: %s, %v", got, err)
	}

	controlplanetest.Must[*corev1.ServiceAccount](t)(admin.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}))
	request := controlplanetest.Must[*authenticationv1.TokenRequest](t)(admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, "robot",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
	if !slices.Equal(request.Spec.Audiences, []string{"api"}) {
		t.Errorf("the audiences are %v", request.Spec.Audiences)
	}
	robot := rest.CopyConfig(none)
	robot.BearerToken = request.Status.Token
	if got, err := whoIs(t, robot); err != nil || !strings.HasPrefix(got, "system:serviceaccount:default:robot ") {
		t.Errorf("the token is of %s, %v", got, err)
	}

	service := controlplanetest.Must[*corev1.Service](t)(admin.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
	if service.Spec.ClusterIP != "10.0.0.1" {
		t.Errorf("the API server has the address %s", service.Spec.ClusterIP)
	}
	ports := []corev1.ServicePort{{Port: 80}}
	for i := range 253 {
		s := controlplanetest.Must[*corev1.Service](t)(admin.CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}, Spec: corev1.ServiceSpec{Ports: ports}}, metav1.CreateOptions{}))
		if !netip.MustParsePrefix("10.0.0.0/24").Contains(netip.MustParseAddr(s.Spec.ClusterIP)) {
			t.Fatalf("service %d has the address %s", i, s.Spec.ClusterIP)
		}
	}
	_, err = admin.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: corev1.ServiceSpec{Ports: ports}}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "range is full") {
		t.Errorf("when all addresses are used: %v", err)
	}
	_, err = admin.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "outside"},
		Spec: corev1.ServiceSpec{Ports: ports, ClusterIP: "10.96.0.9"}}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "the provided network does not match the current range") {
		t.Errorf("an address of another network: %v", err)
	}
	endpoints := controlplanetest.Must[*corev1.Endpoints](t)(admin.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
	if got := endpoints.Subsets[0].Addresses[0].IP; got != "198.51.100.7" {
		t.Errorf("the advertised address is %s", got)
	}
}

// TestServingCertificateNamesAddresses expects that clients in the cluster, which connect to the
// cluster IP or to the advertised address, can verify the server.
func TestServingCertificateNamesAddresses(t *testing.T) {
	for _, tt := range []struct {
		options          controlplane.Options
		named, otherwise []string
	}{
		{named: []string{"127.0.0.1", "::1", "10.96.0.1"}, otherwise: []string{"10.96.0.0", "198.51.100.7"}},
		{options: controlplane.Options{ServiceNetwork: netip.MustParsePrefix("10.0.0.5/24"),
			AdvertiseAddress: netip.MustParseAddr("198.51.100.7")},
			named: []string{"127.0.0.1", "10.0.0.1", "198.51.100.7"}, otherwise: []string{"10.96.0.1", "10.0.0.5", "10.0.0.6"}},
		{options: controlplane.Options{AdvertiseAddress: netip.MustParseAddr("2001:db8::7")},
			named: []string{"10.96.0.1", "2001:db8::7"}, otherwise: []string{"2001:db8::1"}},
	} {
		tt.options.Listen, tt.options.WithoutControllers = "127.0.0.1:0", true
		plane, err := controlplane.Start(t.Context(), tt.options)
		if err != nil {
			t.Fatal(err)
		}
		cfg := controlplanetest.Must[*rest.Config](t)(clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig()))
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(cfg.CAData)
		connect := func(name string) error {
			conn, err := tls.Dial("tcp", strings.TrimPrefix(plane.URL(), "https://"), &tls.Config{RootCAs: roots, ServerName: name})
			if err == nil {
				conn.Close()
			}
			return err
		}
		for _, name := range tt.named {
			if err := connect(name); err != nil {
				t.Errorf("%s, advertised %s: %v", tt.options.ServiceNetwork, tt.options.AdvertiseAddress, err)
			}
		}
		for _, name := range tt.otherwise {
			if connect(name) == nil {
				t.Errorf("%s, advertised %s: the certificate names %s", tt.options.ServiceNetwork, tt.options.AdvertiseAddress, name)
			}
		}
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestInvalidServerOptions(t *testing.T) {
	for want, o := range map[string]controlplane.Options{
		"the client CA has no certificate in PEM":                             {Listen: "127.0.0.1:0", ClientCA: []byte("x")},
		"the range of cluster IPs fd00::/64 is not an IPv4 range":             {ServiceNetwork: netip.MustParsePrefix("fd00::/64")},
		"the range of cluster IPs 10.0.0.0/30 must have at least 8 addresses": {ServiceNetwork: netip.MustParsePrefix("10.0.0.0/30")},
	} {
		if _, err := controlplane.Start(t.Context(), o); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
