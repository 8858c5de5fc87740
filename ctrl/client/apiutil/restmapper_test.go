package apiutil_test

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/fakeapi"
)

func newDiscovery() *fakeapi.Server {
	s := fakeapi.New(corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Node"), deployment.WithVersion("v1"))
	s.Serve(widget.WithVersion("v1beta1"), "widgets", true)
	return s
}

// paths returns the paths of the requests since the last call.
func paths(s *fakeapi.Server) (paths []string) {
	for _, r := range s.Requests() {
		paths = append(paths, r.Path)
	}
	return paths
}

func newMapper(t *testing.T, s *fakeapi.Server) meta.RESTMapper {
	t.Helper()
	m, err := apiutil.NewDynamicRESTMapper(&rest.Config{Host: "http://server"}, &http.Client{Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var (
	deployment = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	widget     = schema.GroupKind{Group: "example.com", Kind: "Widget"}
)

// TestMapperDiscoversOnDemand checks the results and the requests that they took.
func TestMapperDiscoversOnDemand(t *testing.T) {
	tests := []struct {
		name  string
		call  func(m meta.RESTMapper) (any, error)
		want  any
		paths []string
	}{
		{"a kind in a version", func(m meta.RESTMapper) (any, error) { return plural(m.RESTMapping(deployment, "v1")) }, "deployments", []string{"/apis/apps/v1"}},
		{"a kind in any version", func(m meta.RESTMapper) (any, error) { return plural(m.RESTMapping(widget)) }, "widgets", []string{"/apis/example.com", "/apis/example.com/v1beta1"}},
		{"a kind in no version", func(m meta.RESTMapper) (any, error) { return plural(m.RESTMapping(widget, "")) }, "widgets", []string{"/apis/example.com", "/apis/example.com/v1beta1"}},
		{"a resource", func(m meta.RESTMapper) (any, error) {
			return m.KindFor(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
		}, deployment.WithVersion("v1"), []string{"/apis/apps/v1"}},
		{"a resource of the core group", func(m meta.RESTMapper) (any, error) {
			return m.ResourceFor(schema.GroupVersionResource{Resource: "pods"})
		}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, []string{"/api", "/api/v1"}},
		{"a resource of some group", func(m meta.RESTMapper) (any, error) {
			return m.KindFor(schema.GroupVersionResource{Resource: "widgets"})
		}, widget.WithVersion("v1beta1"), []string{"/api", "/api/v1", "/api", "/apis", "/api/v1", "/apis/apps/v1", "/apis/example.com/v1beta1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newDiscovery()
			m := newMapper(t, s)
			for range 2 { // the second call makes no request
				got, err := tt.call(m)
				if err != nil || got != tt.want {
					t.Fatalf("got %v, %v; want %v", got, err, tt.want)
				}
			}
			if got := paths(s); !slices.Equal(got, tt.paths) {
				t.Errorf("requests %q, want %q", got, tt.paths)
			}
		})
	}
}

func plural(m *meta.RESTMapping, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return m.Resource.Resource, nil
}

func TestMapperScope(t *testing.T) {
	m := newMapper(t, newDiscovery())
	for kind, want := range map[string]bool{"Pod": true, "PodList": true, "Node": false} {
		got, err := apiutil.IsGVKNamespaced(schema.GroupVersionKind{Version: "v1", Kind: kind}, m)
		if err != nil || got != want {
			t.Errorf("%s: namespaced %v, %v", kind, got, err)
		}
	}
}

// TestMapperFindsNewKinds checks that kinds are found that were installed later, and that lookups
// of missing kinds are rate limited.
func TestMapperFindsNewKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDiscovery()
		m := newMapper(t, s)
		gadget := schema.GroupKind{Group: "example.com", Kind: "Gadget"}
		for range 1000 {
			if _, err := m.RESTMapping(gadget, "v1beta1"); !meta.IsNoMatchError(err) {
				t.Fatal(err)
			}
		}
		if n := len(paths(s)); n > 12 {
			t.Errorf("%d requests for a missing kind", n)
		}
		// The limit is per group.
		if _, err := m.RESTMapping(deployment, "v1"); err != nil {
			t.Error(err)
		}
		s.Serve(schema.GroupVersionKind{Group: "example.com", Version: "v1beta1", Kind: "Gadget"}, "gadgets", true)
		time.Sleep(time.Second)
		if _, err := m.RESTMapping(gadget, "v1beta1"); err != nil {
			t.Error(err)
		}
		// A new version is discovered at once, and used from then on.
		s.Serve(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, "widgets", true)
		if _, err := m.RESTMapping(widget, "v1"); err != nil {
			t.Error(err)
		}
		mappings, err := m.RESTMappings(widget)
		if err != nil || len(mappings) != 2 {
			t.Errorf("%d mappings, %v", len(mappings), err)
		}
	})
}

func TestMapperReset(t *testing.T) {
	s := newDiscovery()
	m := newMapper(t, s)
	if _, err := m.RESTMapping(widget, "v1beta1"); err != nil {
		t.Fatal(err)
	}
	s.Serve(schema.GroupVersionKind{Group: "example.com", Version: "v1beta1", Kind: "Widget"}, "moved", false)
	meta.MaybeResetRESTMapper(m)
	if got, err := plural(m.RESTMapping(widget, "v1beta1")); err != nil || got != "moved" {
		t.Errorf("after a reset: %v, %v", got, err)
	}
}

func TestMapperServerDown(t *testing.T) {
	s := newDiscovery()
	m := newMapper(t, s)
	s.Respond = func(r fakeapi.Request) (*http.Response, error) {
		if r.Path == "/apis/apps/v1" {
			return nil, errors.New("no route to host")
		}
		return nil, nil
	}
	_, err := m.RESTMapping(deployment, "v1")
	var failed *apiutil.ErrResourceDiscoveryFailed
	if !errors.As(err, &failed) || meta.IsNoMatchError(err) {
		t.Errorf("error %v", err)
	}
	// Kinds of other servers are still found.
	if _, err := m.KindFor(schema.GroupVersionResource{Resource: "widgets"}); err != nil {
		t.Error(err)
	}
	s.Fail(nil)
	if _, err := m.RESTMapping(deployment, "v1"); err != nil {
		t.Error(err)
	}
}

func TestMapperUnknownGroup(t *testing.T) {
	m := newMapper(t, newDiscovery())
	none := schema.GroupKind{Group: "none", Kind: "None"}
	for _, versions := range [][]string{{"v1"}, nil} {
		if _, err := m.RESTMapping(none, versions...); !meta.IsNoMatchError(err) {
			t.Errorf("%v: error %v", versions, err)
		}
	}
}

func TestMapperConcurrently(t *testing.T) {
	s := newDiscovery()
	m := newMapper(t, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, gk := range []schema.GroupKind{deployment, {Kind: "Pod"}} {
				if _, err := m.RESTMapping(gk, "v1"); err != nil {
					t.Error(err)
				}
			}
			meta.MaybeResetRESTMapper(m)
		})
	}
	wg.Wait()
}
