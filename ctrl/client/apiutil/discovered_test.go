package apiutil_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/fakeapi"
)

// alike is a transport to a server with the documents of others.
type alike struct {
	*fakeapi.Server
	same *sync.Map
}

func (a *alike) Discovered() *sync.Map { return a.same }

// TestDiscovered discovers servers with the same documents: the first mapper discovers them for all. A mapper of a server
// with documents that may have changed, and a kind that is installed later, need requests.
func TestDiscovered(t *testing.T) {
	same := &sync.Map{}
	for i, tc := range []struct {
		same     *sync.Map
		requests int
	}{{same, 2}, {same, 0}, {nil, 2}, {&sync.Map{}, 2}} {
		s := newDiscovery()
		s.Aggregated = true
		transport := &alike{s, tc.same}
		m, err := apiutil.NewDynamicRESTMapper(&rest.Config{Host: "http://server", Transport: transport}, &http.Client{Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.RESTMapping(deployment, "v1"); err != nil {
			t.Fatal(err)
		}
		if got := paths(s); len(got) != tc.requests {
			t.Errorf("mapper %d has sent %v, want %d requests", i+1, got, tc.requests)
		}
		gadget := deployment
		gadget.Kind = "Gadget"
		s.Serve(gadget.WithVersion("v1"), "gadgets", true)
		if _, err := m.RESTMapping(gadget, "v1"); err != nil {
			t.Errorf("mapper %d: %v", i+1, err)
		}
	}
}

// changing is a transport to a server with documents that change with the first request.
type changing struct {
	*fakeapi.Server
	same    *sync.Map
	changed atomic.Bool
}

func (c *changing) Discovered() *sync.Map {
	if c.changed.Load() {
		return nil
	}
	return c.same
}

func (c *changing) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.changed.CompareAndSwap(false, true) { // a kind is installed while a mapper discovers
		gadget := deployment
		gadget.Kind = "Gadget"
		c.Serve(gadget.WithVersion("v1"), "gadgets", true)
	}
	return c.Server.RoundTrip(r)
}

// TestChangedDuringDiscovery: a kind that is installed in one server, while its mapper discovers, is not a kind of the others.
func TestChangedDuringDiscovery(t *testing.T) {
	same := &sync.Map{}
	first := &changing{Server: newDiscovery(), same: same}
	first.Aggregated = true
	m, err := apiutil.NewDynamicRESTMapper(&rest.Config{Host: "http://server", Transport: first}, &http.Client{Transport: first})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.RESTMapping(deployment, "v1"); err != nil {
		t.Fatal(err)
	}
	other := &alike{newDiscovery(), same}
	other.Aggregated = true
	m, err = apiutil.NewDynamicRESTMapper(&rest.Config{Host: "http://server", Transport: other}, &http.Client{Transport: other})
	if err != nil {
		t.Fatal(err)
	}
	gadget := deployment
	gadget.Kind = "Gadget"
	if got, err := m.RESTMapping(gadget, "v1"); !meta.IsNoMatchError(err) {
		t.Errorf("a server without the kind has %v, %v", got, err)
	}
}
