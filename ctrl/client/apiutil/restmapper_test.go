package apiutil_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// TestMapperDiscoversOnDemand checks the results and the requests that they took: of a server with
// aggregated discovery the first lookup needs two, of another one also the requests of the group that
// is looked up.
func TestMapperDiscoversOnDemand(t *testing.T) {
	tests := []struct {
		name  string
		call  func(m meta.RESTMapper) (any, error)
		want  any
		paths []string // after the groups, if discovery is not aggregated
	}{
		{"a kind in a version", func(m meta.RESTMapper) (any, error) { return plural(m.RESTMapping(deployment, "v1")) },
			"deployments", []string{"/apis/apps/v1"}},
		{"a kind in any version", func(m meta.RESTMapper) (any, error) { return plural(m.RESTMapping(widget)) },
			"widgets", []string{"/apis/example.com/v1beta1"}},
		{"a kind in no version", func(m meta.RESTMapper) (any, error) { return plural(m.RESTMapping(widget, "")) },
			"widgets", []string{"/apis/example.com/v1beta1"}},
		{"a resource", func(m meta.RESTMapper) (any, error) {
			return m.KindFor(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
		}, deployment.WithVersion("v1"), []string{"/apis/apps/v1"}},
		{"a resource of the core group", func(m meta.RESTMapper) (any, error) {
			return m.ResourceFor(schema.GroupVersionResource{Resource: "pods"})
		}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, []string{"/api/v1"}},
		{"a resource of some group", func(m meta.RESTMapper) (any, error) {
			return m.KindFor(schema.GroupVersionResource{Resource: "widgets"})
		}, widget.WithVersion("v1beta1"),
			[]string{"/api/v1", "/api", "/apis", "/api/v1", "/apis/apps/v1", "/apis/example.com/v1beta1"}},
	}
	for _, tt := range tests {
		for _, aggregated := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/aggregated=%v", tt.name, aggregated), func(t *testing.T) {
				s := newDiscovery()
				s.Aggregated = aggregated
				m := newMapper(t, s)
				for range 2 { // the second call makes no request
					got, err := tt.call(m)
					if err != nil || got != tt.want {
						t.Fatalf("got %v, %v; want %v", got, err, tt.want)
					}
				}
				want := []string{"/api", "/apis"}
				if !aggregated {
					want = append(want, tt.paths...)
				}
				if got := paths(s); !slices.Equal(got, want) {
					t.Errorf("requests %q, want %q", got, want)
				}
			})
		}
	}
}

// TestMapperAggregated looks up kinds of all groups with two requests, and after that makes one for
// a version that is not there, and two for a group in any version.
func TestMapperAggregated(t *testing.T) {
	s := newDiscovery()
	s.Aggregated = true
	m := newMapper(t, s)
	lookUp := func(gk schema.GroupKind, versions ...string) error {
		_, err := m.RESTMapping(gk, versions...)
		return err
	}
	none := schema.GroupKind{Group: "none", Kind: "None"}
	for _, step := range []struct {
		name     string
		gk       schema.GroupKind
		versions []string
		found    bool
		paths    []string
	}{
		{"first lookup", deployment, []string{"v1"}, true, []string{"/api", "/apis"}},
		{"another group", widget, []string{"v1beta1"}, true, nil},
		{"several versions", widget, []string{"v1", "v1beta1"}, true, nil},
		{"any version", schema.GroupKind{Kind: "Pod"}, nil, true, nil},
		{"no such kind", schema.GroupKind{Group: "apps", Kind: "None"}, []string{"v1"}, false, []string{"/apis/apps/v1"}},
		{"no such version", deployment, []string{"v9"}, false, []string{"/apis/apps/v9"}},
		{"no such kind in any version", schema.GroupKind{Group: "apps", Kind: "None"}, nil, false, []string{"/api", "/apis"}},
		{"no such group", none, []string{"v1"}, false, []string{"/apis/none/v1"}},
		{"no such group in any version", none, nil, false, []string{"/api", "/apis"}},
	} {
		err := lookUp(step.gk, step.versions...)
		if step.found && err != nil || !step.found && !meta.IsNoMatchError(err) {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := paths(s); !slices.Equal(got, step.paths) {
			t.Errorf("%s: requests %q, want %q", step.name, got, step.paths)
		}
	}
	// The first lookup of a version that is not there needs no more than the discovery.
	m = newMapper(t, s)
	if err := lookUp(deployment, "v9"); !meta.IsNoMatchError(err) {
		t.Error(err)
	}
	if got := paths(s); !slices.Equal(got, []string{"/api", "/apis"}) {
		t.Errorf("requests %q", got)
	}
}

// TestMapperStaleGroup checks that a group with an unavailable server is not mistaken for one that
// does not exist, and that resources which are known already stay known.
func TestMapperStaleGroup(t *testing.T) {
	s := newDiscovery()
	s.Aggregated = true
	known := newMapper(t, s)
	if _, err := known.RESTMapping(widget); err != nil {
		t.Fatal(err)
	}
	s.Do(func() {
		s.Stale = []schema.GroupVersion{{Group: "example.com", Version: "v1beta1"}}
		s.Respond = func(r fakeapi.Request) (*http.Response, error) {
			if r.Path == "/apis/example.com/v1beta1" {
				return nil, apierrors.NewServiceUnavailable("no endpoints")
			}
			return nil, nil
		}
	})
	if _, err := known.RESTMapping(schema.GroupKind{Group: "apps", Kind: "None"}); !meta.IsNoMatchError(err) {
		t.Error(err) // this has discovered the groups again
	}
	if _, err := known.RESTMapping(widget); err != nil {
		t.Errorf("a resource that was known: %v", err)
	}
	m := newMapper(t, s)
	for _, versions := range [][]string{{"v1beta1"}, {"v1beta1"}, nil} {
		_, err := m.RESTMapping(widget, versions...)
		var failed *apiutil.ErrResourceDiscoveryFailed
		if !errors.As(err, &failed) || meta.IsNoMatchError(err) {
			t.Errorf("%v: %v", versions, err)
		}
	}
	if _, err := m.RESTMapping(deployment); err != nil {
		t.Errorf("another group: %v", err)
	}
	s.Do(func() { s.Stale, s.Respond = nil, nil })
	if _, err := m.RESTMapping(widget, "v1beta1"); err != nil {
		t.Errorf("when its server is available again: %v", err)
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
		if n := len(paths(s)); n > 13 {
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

// TestMapperResetDuringDiscovery checks that a mapper forgets, too, what it was just about to learn.
func TestMapperResetDuringDiscovery(t *testing.T) {
	s := newDiscovery()
	var m meta.RESTMapper
	once := sync.OnceFunc(func() {
		s.Serve(schema.GroupVersionKind{Group: "example.com", Version: "v1beta1", Kind: "Widget"}, "moved", false)
		meta.MaybeResetRESTMapper(m)
	})
	m, err := apiutil.NewDynamicRESTMapper(&rest.Config{Host: "http://server"}, &http.Client{
		Transport: fakeapi.Func(func(r *http.Request) (*http.Response, error) {
			resp, err := s.RoundTrip(r)
			if r.URL.Path == "/apis/example.com/v1beta1" {
				once()
			}
			return resp, err
		})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.RESTMapping(widget, "v1beta1"); err != nil { // before the reset, or after it
		t.Error(err)
	}
	if got, err := plural(m.RESTMapping(widget, "v1beta1")); err != nil || got != "moved" {
		t.Errorf("after a reset during discovery: %v, %v", got, err)
	}
}

// TestMapperOfABusyServer checks that a server that asks to be asked later delays nobody beyond the
// end of the own context, and that what a cancelled discovery lacks is not taken for missing.
func TestMapperOfABusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDiscovery()
		s.Serve(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, "widgets", true)
		contextual := meta.ToRESTMapperWithContext(newMapper(t, s))
		busy := http.Header{"Retry-After": {"60"}, "Content-Type": {"text/plain"}}
		s.Respond = func(r fakeapi.Request) (*http.Response, error) {
			if r.Path != "/apis/example.com/v1beta1" {
				return nil, nil
			}
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: busy, Body: http.NoBody}, nil
		}
		look := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() {
				mappings, err := contextual.RESTMappingsWithContext(ctx, widget)
				if err == nil && len(mappings) != 2 {
					err = fmt.Errorf("%d mappings", len(mappings))
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		start := time.Now()
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		asks, waits, patient := look(first), look(second), look(t.Context())
		cancelSecond()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled wait: error %v", err)
		}
		s.Fail(nil)
		cancelFirst()
		if err := <-asks; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled discovery: error %v", err)
		}
		if err := <-patient; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
	})
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
