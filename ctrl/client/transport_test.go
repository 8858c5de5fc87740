package client_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
)

// sent is a request as the server saw it.
type sent struct {
	method, path, query, contentType, accept, body string
}

// server answers every request in the process, and keeps what it saw.
type server struct {
	answer func(r *http.Request) (status int, body any)
	seen   []sent
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	s.seen = append(s.seen, sent{
		method:      r.Method,
		path:        r.URL.Path,
		query:       r.URL.Query().Encode(),
		contentType: r.Header.Get("Content-Type"),
		accept:      r.Header.Get("Accept"),
		body:        string(body),
	})
	status, answer := s.answer(r)
	data, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status,
		Header:     http.Header{"Content-Type": []string{"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(data)),
		Request:    r,
	}, nil
}

func (s *server) last(t *testing.T) sent {
	t.Helper()
	if len(s.seen) == 0 {
		t.Fatal("no request was sent")
	}
	return s.seen[len(s.seen)-1]
}

func (s *server) config() *rest.Config {
	return &rest.Config{Host: "http://server", Transport: s, QPS: -1}
}

// say answers every request with the same object.
func say(status int, body any) *server {
	return &server{answer: func(*http.Request) (int, any) { return status, body }}
}

// mapper knows the kinds of these tests.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "PodList"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Node"}, meta.RESTScopeRoot)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	m.Add(widgetKind, meta.RESTScopeNamespace)
	return m
}

var widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func newClient(t *testing.T, s *server, change ...func(*client.Options)) client.WithWatch {
	t.Helper()
	o := client.Options{Mapper: mapper()}
	for _, c := range change {
		c(&o)
	}
	c, err := client.NewWithWatch(s.config(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pod(namespace, name string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name = namespace, name
	return p
}

func equal(a, b any) bool { return apiequality.Semantic.DeepEqual(a, b) }

// statusOf returns an error as a server sends it.
func statusOf(err *apierrors.StatusError) metav1.Status {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return status
}
