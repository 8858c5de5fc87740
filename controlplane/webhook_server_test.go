package controlplane_test

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
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
)

// pipeListener accepts connections that are dialed in the process, without a socket.
type pipeListener struct {
	address string
	accept  chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return l }

// Network and String implement net.Addr.
func (l *pipeListener) Network() string { return "pipe" }
func (l *pipeListener) String() string  { return l.address }

// dial is the DialWebhook of a control plane. It refuses other addresses.
func (l *pipeListener) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if address != l.address {
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

// webhookHost is the host of the URLs of webhooks.
const webhookHost = "example.com"

// webhookServer serves webhooks over TLS at https://example.com/PATH, one function a path.
type webhookServer struct {
	*pipeListener
	ca     []byte
	hangUp func() // closes all connections

	mu    sync.Mutex
	serve map[string]webhookFunc
	// convert answers conversion reviews, at the path /convert.
	convert conversionFunc
}

// webhookFunc answers a review, which it may change to be the answer itself.
type webhookFunc func(w http.ResponseWriter, r *http.Request, review *v1.AdmissionReview)

func serveWebhooks(t testing.TB) *webhookServer {
	t.Helper()
	s := &webhookServer{
		pipeListener: &pipeListener{address: webhookHost + ":443", accept: make(chan net.Conn), closed: make(chan struct{})},
		serve:        map[string]webhookFunc{},
	}
	server := httptest.NewUnstartedServer(s)
	server.Listener.Close()
	server.Listener = s.pipeListener
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificateFor(t, webhookHost, "hook.default.svc")}}
	server.StartTLS()
	s.hangUp = server.CloseClientConnections
	t.Cleanup(server.Close)
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return s
}

// certificateFor returns a self-signed certificate.
func certificateFor(t testing.TB, names ...string) tls.Certificate {
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

// handle serves a path and returns the configuration of its client.
func (s *webhookServer) handle(path string, f webhookFunc) admissionv1.WebhookClientConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve["/"+path] = f
	url := "https://" + webhookHost + "/" + path
	return admissionv1.WebhookClientConfig{URL: &url, CABundle: s.ca}
}

// converts sets what answers conversion reviews.
func (s *webhookServer) converts(f conversionFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.convert = f
}

func (s *webhookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// respond writes a review with a response to its request.
func respond(w http.ResponseWriter, review *v1.AdmissionReview, response v1.AdmissionResponse) {
	if response.UID == "" {
		response.UID = review.Request.UID
	}
	review.Request, review.Response = nil, &response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// allow allows every request.
func allow(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
	respond(w, review, v1.AdmissionResponse{Allowed: true})
}

// patch returns a webhook that applies a JSON patch.
func patch(operations string) webhookFunc {
	return func(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
		respond(w, review, v1.AdmissionResponse{Allowed: true, Patch: []byte(operations), PatchType: new(v1.PatchTypeJSONPatch)})
	}
}

// rule matches requests for resources of all groups and versions.
func rule(resource string, operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{resource}},
	}}
}

// mutatingHook returns a webhook for all operations on a resource.
func mutatingHook(name string, client admissionv1.WebhookClientConfig, resource string) admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name: name + ".example.com", ClientConfig: client, Rules: rule(resource, admissionv1.OperationAll),
		AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
	}
}

// validatingHook returns a webhook for all operations on a resource.
func validatingHook(name string, client admissionv1.WebhookClientConfig, resource string) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name: name + ".example.com", ClientConfig: client, Rules: rule(resource, admissionv1.OperationAll),
		AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
	}
}

func createMutating(t testing.TB, client kubernetes.Interface, name string, hooks ...admissionv1.MutatingWebhook) {
	t.Helper()
	_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func createValidating(t testing.TB, client kubernetes.Interface, name string, hooks ...admissionv1.ValidatingWebhook) {
	t.Helper()
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// startWithWebhooks starts a control plane without controllers that calls the webhooks of a server.
func startWithWebhooks(t testing.TB, s *webhookServer) *controlplane.ControlPlane {
	t.Helper()
	return start(t, controlplane.Options{WithoutControllers: true, DialWebhook: s.dial})
}

// exampleDeployment returns a small deployment with the name web.
func exampleDeployment() *appsv1.Deployment {
	p := examplePod(0)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: p.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec},
		},
	}
}
