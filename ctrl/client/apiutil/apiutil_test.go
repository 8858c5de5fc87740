package apiutil_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/fakeapi"
)

func TestGVKForObject(t *testing.T) {
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	twice := runtime.NewScheme()
	twice.AddKnownTypeWithName(pod, &corev1.Pod{})
	twice.AddKnownTypeWithName(schema.GroupVersionKind{Group: "x", Version: "v2", Kind: "Pod"}, &corev1.Pod{})
	typeMeta := func(apiVersion, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
	}
	tests := []struct {
		name   string
		obj    runtime.Object
		scheme *runtime.Scheme
		want   schema.GroupVersionKind
		err    string
	}{
		{"typed", &corev1.Pod{}, clientgoscheme.Scheme, pod, ""},
		{"a list", &corev1.PodList{}, clientgoscheme.Scheme, pod.GroupVersion().WithKind("PodList"), ""},
		{"typed, with another kind set", &corev1.Pod{TypeMeta: typeMeta("v9", "Dog")}, clientgoscheme.Scheme, pod, ""},
		{"unknown", &corev1.Pod{}, runtime.NewScheme(), schema.GroupVersionKind{}, "no kind is registered"},
		{"in two, none set", &corev1.Pod{}, twice, schema.GroupVersionKind{}, "multiple GroupVersionKinds associated with Go type"},
		{"in two, one set", &corev1.Pod{TypeMeta: typeMeta("v1", "Pod")}, twice, pod, ""},
		{"in two, another set", &corev1.Pod{TypeMeta: typeMeta("v3", "Pod")}, twice, schema.GroupVersionKind{}, "none of which is"},
		{"metadata", &metav1.PartialObjectMetadata{TypeMeta: typeMeta("v1", "Pod")}, clientgoscheme.Scheme, pod, ""},
		{"metadata without a kind", &metav1.PartialObjectMetadata{}, clientgoscheme.Scheme, schema.GroupVersionKind{}, "no kind"},
		{"metadata without a version", &metav1.PartialObjectMetadataList{TypeMeta: typeMeta("", "PodList")}, clientgoscheme.Scheme, schema.GroupVersionKind{}, "no version"},
		{"unstructured", &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}, runtime.NewScheme(), pod, ""},
		{"of no version", &metav1.Status{}, clientgoscheme.Scheme, schema.GroupVersionKind{}, "unversioned type"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := apiutil.GVKForObject(tt.obj, tt.scheme)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestRESTClient checks the path and the encodings of the client of a kind.
func TestRESTClient(t *testing.T) {
	aggregated := schema.GroupVersion{Group: "aggregated.example.com", Version: "v1"}
	err := apiutil.AddToProtobufScheme(func(s *runtime.Scheme) error {
		s.AddKnownTypeWithName(aggregated.WithKind("Pod"), &corev1.Pod{})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const jsonType, protobufType = "application/json", "application/vnd.kubernetes.protobuf"
	tests := []struct {
		gvk                     schema.GroupVersionKind
		noProtobuf, unstructure bool
		contentType             string
		path, accept            string
	}{
		{gvk: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, path: "/api/v1", accept: protobufType},
		{gvk: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, noProtobuf: true, path: "/api/v1", accept: jsonType},
		{gvk: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, noProtobuf: true, unstructure: true, path: "/api/v1", accept: jsonType},
		{gvk: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, contentType: jsonType, path: "/api/v1", accept: jsonType},
		{gvk: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, path: "/apis/apps/v1", accept: protobufType},
		{gvk: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, path: "/apis/example.com/v1", accept: jsonType},
		{gvk: aggregated.WithKind("Pod"), path: "/apis/aggregated.example.com/v1", accept: protobufType},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.gvk, tt.noProtobuf, tt.unstructure, tt.contentType), func(t *testing.T) {
			var seen *http.Request
			cfg := &rest.Config{Host: "http://server", ContentConfig: rest.ContentConfig{ContentType: tt.contentType}}
			c, err := apiutil.RESTClientForGVK(tt.gvk, tt.noProtobuf, tt.unstructure, cfg, serializer.NewCodecFactory(clientgoscheme.Scheme), &http.Client{
				Transport: fakeapi.Func(func(r *http.Request) (*http.Response, error) {
					seen = r
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			c.Get().Resource("things").Do(context.Background())
			if got := seen.URL.Path; got != tt.path+"/things" {
				t.Errorf("path %s", got)
			}
			if got := seen.Header.Get("Accept"); !strings.HasPrefix(got, tt.accept) {
				t.Errorf("accept %s", got)
			}
			if cfg.GroupVersion != nil || cfg.UserAgent != "" {
				t.Error("the config was changed")
			}
		})
	}
	if _, err := apiutil.RESTClientForGVK(schema.GroupVersionKind{}, false, false, &rest.Config{}, serializer.CodecFactory{}, nil); err == nil {
		t.Error("no HTTP client, no error")
	}
}

// TestDecodingReplaces checks that a response replaces the target, and that one which cannot be
// decoded does not change it.
func TestDecodingReplaces(t *testing.T) {
	body := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"new"}}`
	c, err := apiutil.RESTClientForGVK(corev1.SchemeGroupVersion.WithKind("Pod"), true, false, &rest.Config{Host: "http://server"},
		serializer.NewCodecFactory(clientgoscheme.Scheme), &http.Client{Transport: fakeapi.Func(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewBufferString(body))}, nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"old": "1"}}}
	if err := c.Get().Resource("pods").Do(context.Background()).Into(p); err != nil || p.Name != "new" || p.Labels != nil {
		t.Errorf("%v, %v", p.ObjectMeta, err)
	}
	body = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":7}}`
	if err := c.Get().Resource("pods").Do(context.Background()).Into(p); err == nil || p.Name != "new" {
		t.Errorf("%v, %v", p.ObjectMeta, err)
	}
}

func TestDiscoveryError(t *testing.T) {
	gone := schema.GroupVersion{Group: "gone", Version: "v1"}
	down := schema.GroupVersion{Group: "down", Version: "v1"}
	err := error(&apiutil.ErrResourceDiscoveryFailed{
		gone: apierrors.NewNotFound(schema.GroupResource{}, "x"),
		down: io.ErrUnexpectedEOF,
	})
	if !meta.IsNoMatchError(err) {
		t.Error("what is gone is not recognized")
	}
	if got := err.Error(); !strings.Contains(got, "down/v1: unexpected EOF, gone/v1") {
		t.Errorf("error %q", got)
	}
}
