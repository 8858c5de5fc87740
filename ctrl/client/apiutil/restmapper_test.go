package apiutil_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client/apiutil"
)

// discovery answers the discovery requests for what it has. It does not know the
// aggregated form.
type discovery struct {
	mu     sync.Mutex
	groups []metav1.APIGroup
	lists  map[string][]metav1.APIResource // by group and version
	down   map[string]bool                 // paths that fail
	asked  []string
}

func newDiscovery() *discovery {
	d := &discovery{lists: map[string][]metav1.APIResource{}, down: map[string]bool{}}
	d.serve(schema.GroupVersion{Version: "v1"}, "Pod", "pods", true)
	d.serve(schema.GroupVersion{Version: "v1"}, "Node", "nodes", false)
	d.serve(schema.GroupVersion{Group: "apps", Version: "v1"}, "Deployment", "deployments", true)
	d.serve(schema.GroupVersion{Group: "example.com", Version: "v1beta1"}, "Widget", "widgets", true)
	return d
}

// serve adds a kind. The first version of a group is the preferred one.
func (d *discovery) serve(gv schema.GroupVersion, kind, plural string, namespaced bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	i := slices.IndexFunc(d.groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
	if i < 0 {
		i = len(d.groups)
		d.groups = append(d.groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: version})
	}
	if d.lists[gv.String()] == nil {
		d.groups[i].Versions = append(d.groups[i].Versions, version)
	}
	d.lists[gv.String()] = append(d.lists[gv.String()],
		metav1.APIResource{Kind: kind, Name: plural, Namespaced: namespaced, Verbs: metav1.Verbs{"get"}},
		metav1.APIResource{Kind: kind, Name: plural + "/status", Namespaced: namespaced, Verbs: metav1.Verbs{"get"}})
}

func (d *discovery) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, r.URL.Path)
	status, body := http.StatusOK, any(nil)
	switch path := r.URL.Path; {
	case d.down[path]:
		return nil, errors.New("no route to host")
	case path == "/api":
		body = metav1.APIVersions{Versions: []string{"v1"}}
	case path == "/apis":
		body = metav1.APIGroupList{Groups: d.groups[1:]}
	default:
		status, body = d.document(path)
	}
	data, err := json.Marshal(body)
	return &http.Response{
		StatusCode: status,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(data)),
	}, err
}

// document returns the document of a group, or of a version of it.
func (d *discovery) document(path string) (int, any) {
	for _, g := range d.groups {
		if path == "/apis/"+g.Name {
			return http.StatusOK, g
		}
	}
	for gv, list := range d.lists {
		if path == "/apis/"+gv || path == "/api/"+gv {
			return http.StatusOK, metav1.APIResourceList{GroupVersion: gv, APIResources: list}
		}
	}
	return http.StatusNotFound, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404}
}

// requests returns what was asked since the last call.
func (d *discovery) requests() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.asked
	d.asked = nil
	return asked
}

func newMapper(t *testing.T, d *discovery) meta.RESTMapper {
	t.Helper()
	m, err := apiutil.NewDynamicRESTMapper(&rest.Config{Host: "http://server"}, &http.Client{Transport: d})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var (
	deployment = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	widget     = schema.GroupKind{Group: "example.com", Kind: "Widget"}
)

// TestMapperAsksForWhatItNeeds checks the answers, and what it took to give them.
func TestMapperAsksForWhatItNeeds(t *testing.T) {
	tests := []struct {
		name  string
		ask   func(m meta.RESTMapper) (any, error)
		want  any
		asked []string
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
			d := newDiscovery()
			m := newMapper(t, d)
			for range 2 { // the second time there is nothing to ask
				got, err := tt.ask(m)
				if err != nil || got != tt.want {
					t.Fatalf("got %v, %v; want %v", got, err, tt.want)
				}
			}
			if asked := d.requests(); !slices.Equal(asked, tt.asked) {
				t.Errorf("asked for %q, want %q", asked, tt.asked)
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

// TestMapperFindsWhatComesLater checks that what is installed is found, and that
// what is not there is not asked for over and over.
func TestMapperFindsWhatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiscovery()
		m := newMapper(t, d)
		gadget := schema.GroupKind{Group: "example.com", Kind: "Gadget"}
		for range 1000 {
			if _, err := m.RESTMapping(gadget, "v1beta1"); !meta.IsNoMatchError(err) {
				t.Fatal(err)
			}
		}
		if n := len(d.requests()); n > 12 {
			t.Errorf("asked %d times for what is not there", n)
		}
		// Other groups are not held back by that.
		if _, err := m.RESTMapping(deployment, "v1"); err != nil {
			t.Error(err)
		}
		d.serve(schema.GroupVersion{Group: "example.com", Version: "v1beta1"}, "Gadget", "gadgets", true)
		time.Sleep(time.Second)
		if _, err := m.RESTMapping(gadget, "v1beta1"); err != nil {
			t.Error(err)
		}
		// A version that is new is asked for at once, and counts from then on.
		d.serve(schema.GroupVersion{Group: "example.com", Version: "v1"}, "Widget", "widgets", true)
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
	d := newDiscovery()
	m := newMapper(t, d)
	if _, err := m.RESTMapping(widget, "v1beta1"); err != nil {
		t.Fatal(err)
	}
	delete(d.lists, "example.com/v1beta1")
	d.serve(schema.GroupVersion{Group: "example.com", Version: "v1beta1"}, "Widget", "moved", false)
	meta.MaybeResetRESTMapper(m)
	if got, err := plural(m.RESTMapping(widget, "v1beta1")); err != nil || got != "moved" {
		t.Errorf("after a reset: %v, %v", got, err)
	}
}

func TestMapperServerDown(t *testing.T) {
	d := newDiscovery()
	m := newMapper(t, d)
	d.down["/apis/apps/v1"] = true
	_, err := m.RESTMapping(deployment, "v1")
	var failed *apiutil.ErrResourceDiscoveryFailed
	if !errors.As(err, &failed) || meta.IsNoMatchError(err) {
		t.Errorf("error %v", err)
	}
	// What another server answers for is found all the same.
	if _, err := m.KindFor(schema.GroupVersionResource{Resource: "widgets"}); err != nil {
		t.Error(err)
	}
	d.down["/apis/apps/v1"] = false
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
	d := newDiscovery()
	m := newMapper(t, d)
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
