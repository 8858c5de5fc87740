package controllers_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhooks serves a webhook that denies each request with another message, and one that never answers,
// without a socket.
type webhooks struct {
	server *httptest.Server
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	denials map[string]int // by namespace
}

func serveWebhooks(t *testing.T) *webhooks {
	h := &webhooks{accept: make(chan net.Conn), closed: make(chan struct{}), denials: map[string]int{}}
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(h.deny))
	h.server.Listener.Close()
	h.server.Listener = h
	h.server.StartTLS()
	t.Cleanup(h.server.Close)
	return h
}

// deny denies a request. The message is another one each time.
func (h *webhooks) deny(w http.ResponseWriter, r *http.Request) {
	review := &v1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.denials[strings.Trim(r.URL.Path, "/")]++
	h.mu.Unlock()
	review.Response = &v1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Code: http.StatusForbidden,
		Message: fmt.Sprintf("request %s at %s", review.Request.UID, time.Now())}}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

// denied returns how many requests were denied in a namespace.
func (h *webhooks) denied(namespace string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.denials[namespace]
}

// The hosts of the webhooks.
const (
	denies   = "example.com"
	timesOut = "slow.example.com"
)

// dial connects to a webhook.
func (h *webhooks) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if address == timesOut+":443" {
		select { // the context is not the request's
		case <-ctx.Done():
		case <-h.closed:
		}
		return nil, errors.New("no connection")
	}
	client, server := net.Pipe()
	select {
	case h.accept <- server:
		return client, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Accept, Close and Addr implement net.Listener.
func (h *webhooks) Accept() (net.Conn, error) {
	select {
	case c := <-h.accept:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *webhooks) Close() error   { h.once.Do(func() { close(h.closed) }); return nil }
func (h *webhooks) Addr() net.Addr { return &net.IPAddr{} }

// configuration returns the configuration of the webhook at a host, for a rule in a namespace.
func (h *webhooks) configuration(host, namespace string, rule admissionv1.RuleWithOperations) *admissionv1.ValidatingWebhookConfiguration {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "blocks.example.com", SideEffects: new(admissionv1.SideEffectClassNone), TimeoutSeconds: new(int32(1)),
			AdmissionReviewVersions: []string{"v1"}, Rules: []admissionv1.RuleWithOperations{rule},
			ClientConfig:      admissionv1.WebhookClientConfig{URL: new("https://" + host + "/" + namespace), CABundle: ca},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
		}},
	}
}
