package controlplanetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
)

// ConversionFunc answers a conversion review.
type ConversionFunc = func(w http.ResponseWriter, r *http.Request, review *apiextensionsv1.ConversionReview)

// pipeListener accepts in-process connections without a socket.
type pipeListener struct {
	Address string
	accept  chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// Accept implements [net.Listener].
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *pipeListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// Addr implements [net.Listener].
func (l *pipeListener) Addr() net.Addr { return l }

// Network implements [net.Addr].
func (l *pipeListener) Network() string { return "pipe" }

// String implements [net.Addr].
func (l *pipeListener) String() string { return l.Address }

// Dial is a DialWebhook of a control plane. It refuses all other addresses.
func (l *pipeListener) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if address != l.Address {
		return nil, fmt.Errorf("dial %s %s: connection refused", network, address)
	}
	client, server := net.Pipe()
	select {
	case l.accept <- server:
		return client, nil
	case <-l.closed:
		return nil, fmt.Errorf("dial %s %s: connection refused", network, address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// WebhookHost is the host in the URLs of webhooks.
const WebhookHost = "example.com"

// WebhookServer serves webhooks over TLS at https://example.com/PATH, with one function for each path.
type WebhookServer struct {
	*pipeListener
	CA     []byte
	HangUp func() // closes all connections

	mu    sync.Mutex
	serve map[string]WebhookFunc
	// convert answers conversion reviews, at the path /convert.
	convert ConversionFunc
}

// WebhookFunc answers a review. It may change the review and use it as the answer.
type WebhookFunc func(w http.ResponseWriter, r *http.Request, review *v1.AdmissionReview)

// ServeWebhooks starts a webhook server, which is closed when the test ends.
func ServeWebhooks(t testing.TB) *WebhookServer {
	t.Helper()
	s := &WebhookServer{
		pipeListener: &pipeListener{Address: WebhookHost + ":443", accept: make(chan net.Conn), closed: make(chan struct{})},
	}
	server := httptest.NewUnstartedServer(s)
	server.Listener.Close()
	server.Listener = s.pipeListener
	server.TLS = &tls.Config{Certificates: []tls.Certificate{CertificateFor(t, WebhookHost, "hook.default.svc")}}
	server.StartTLS()
	s.HangUp = server.CloseClientConnections
	t.Cleanup(server.Close)
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return s
}

// CertificateFor returns a self-signed certificate.
func CertificateFor(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: names,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Handle serves a path with f and returns the client configuration for it.
func (s *WebhookServer) Handle(path string, f WebhookFunc) admissionv1.WebhookClientConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serve == nil {
		s.serve = map[string]WebhookFunc{}
	}
	s.serve["/"+path] = f
	url := "https://" + WebhookHost + "/" + path
	return admissionv1.WebhookClientConfig{URL: &url, CABundle: s.CA}
}

// Converts sets the function that answers conversion reviews.
func (s *WebhookServer) Converts(f ConversionFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.convert = f
}

// ServeHTTP implements [http.Handler].
func (s *WebhookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f, convert := s.serve[r.URL.Path], s.convert
	s.mu.Unlock()
	review := &v1.AdmissionReview{}
	body, err := io.ReadAll(r.Body) // to the end, so that the server notices when the client hangs up
	if err == nil && r.URL.Path == "/convert" {
		conversion := &apiextensionsv1.ConversionReview{}
		if err = json.Unmarshal(body, conversion); err == nil {
			convert(w, r, conversion)
			return
		}
	}
	if err == nil {
		err = json.Unmarshal(body, review)
	}
	if err != nil || f == nil {
		http.Error(w, fmt.Sprintf("no webhook %s: %v", r.URL.Path, err), http.StatusNotFound)
		return
	}
	f(w, r, review)
}

// Respond writes a review with a response to its request.
func Respond(w http.ResponseWriter, review *v1.AdmissionReview, response v1.AdmissionResponse) {
	if response.UID == "" {
		response.UID = review.Request.UID
	}
	review.Request, review.Response = nil, &response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// Allow allows every request.
func Allow(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
	Respond(w, review, v1.AdmissionResponse{Allowed: true})
}

// Patch returns a webhook that applies a JSON patch.
func Patch(operations string) WebhookFunc {
	return func(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
		Respond(w, review, v1.AdmissionResponse{Allowed: true, Patch: []byte(operations), PatchType: new(v1.PatchTypeJSONPatch)})
	}
}

// WebhookRule matches requests for resources of all groups and versions.
func WebhookRule(resource string, operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{resource}},
	}}
}

// MutatingWebhook returns a webhook for all operations on a resource.
func MutatingWebhook(name string, client admissionv1.WebhookClientConfig, resource string) admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name: name + ".example.com", ClientConfig: client, Rules: WebhookRule(resource, admissionv1.OperationAll),
		AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
	}
}

// ValidatingWebhook returns a webhook for all operations on a resource.
func ValidatingWebhook(name string, client admissionv1.WebhookClientConfig, resource string) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name: name + ".example.com", ClientConfig: client, Rules: WebhookRule(resource, admissionv1.OperationAll),
		AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
	}
}

// CreateMutating creates a configuration of mutating webhooks.
func CreateMutating(t testing.TB, client kubernetes.Interface, name string, hooks ...admissionv1.MutatingWebhook) {
	t.Helper()
	_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// CreateValidating creates a configuration of validating webhooks.
func CreateValidating(t testing.TB, client kubernetes.Interface, name string, hooks ...admissionv1.ValidatingWebhook) {
	t.Helper()
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// StartWithWebhooks starts a control plane without controllers that calls the webhooks of a server.
func StartWithWebhooks(t testing.TB, s *WebhookServer) *controlplane.ControlPlane {
	t.Helper()
	return Start(t, controlplane.Options{WithoutControllers: true, DialWebhook: s.Dial})
}
