package client_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
)

// server records requests and responds to each in the same way.
type server struct{ fakeapi.Server }

func (s *server) config() *rest.Config {
	return &rest.Config{Host: "http://server", Transport: s, QPS: -1}
}

// last returns the last request.
func (s *server) last(t *testing.T) fakeapi.Request {
	t.Helper()
	requests := s.Requests()
	if len(requests) == 0 {
		t.Fatal("no request was sent")
	}
	return requests[len(requests)-1]
}

func responding(body any) *server {
	s := &server{}
	s.Answer(body)
	return s
}

// mapper returns a mapper of the kinds in these tests.
func mapper() meta.RESTMapper {
	v1 := corev1.SchemeGroupVersion
	return fakeapi.New(v1.WithKind("Pod"), v1.WithKind("PodList"), v1.WithKind("Node"), v1.WithKind("ConfigMap"),
		schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, widgetKind).Mapper()
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
