package lab

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// answers is a transport that keeps the last request.
type answers struct {
	last *url.URL
	body string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.last = r.URL
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

// TestFrozenGetOfIntegers: a get of a view that stands still has the integers of the object, also those that a float64 cannot hold.
func TestFrozenGetOfIntegers(t *testing.T) {
	server := &answers{body: `{"apiVersion":"example.com/v1","kind":"WidgetList","items":[{"spec":{"size":9007199254740993,"share":0.5}}]}`}
	p := &process{transport: server}
	r := httptest.NewRequest(http.MethodGet, "/apis/example.com/v1/namespaces/default/widgets/a", nil)
	response, err := p.frozenGet(r, &request.RequestInfo{Name: "a", Resource: "widgets"}, 7)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	const want = `{"apiVersion":"example.com/v1","kind":"Widget","spec":{"share":0.5,"size":9007199254740993}}`
	if err != nil || strings.TrimSpace(string(body)) != want {
		t.Errorf("got %s, %v, want %s", body, err, want)
	}
}

// TestFrozenListAtVersion0: a list at resource version 0 has no limit, as in the API server. Events have no watch cache.
func TestFrozenListAtVersion0(t *testing.T) {
	for query, want := range map[string]string{
		"/widgets?limit=5&resourceVersion=0":                                   "resourceVersion=7&resourceVersionMatch=Exact",
		"/widgets?limit=5&resourceVersion=0&resourceVersionMatch=NotOlderThan": "resourceVersion=7&resourceVersionMatch=Exact",
		"/widgets?limit=5":            "limit=5&resourceVersion=7&resourceVersionMatch=Exact",
		"/widgets?limit=5&continue=x": "continue=x&limit=5",
		"/api/v1/namespaces/default/events?limit=5&resourceVersion=0": "limit=5&resourceVersion=7&resourceVersionMatch=Exact",
		"/apis/events.k8s.io/v1/events?limit=5&resourceVersion=0":     "limit=5&resourceVersion=7&resourceVersionMatch=Exact",
		"/apis/example.com/v1/events?limit=5&resourceVersion=0":       "resourceVersion=7&resourceVersionMatch=Exact", // custom resources
	} {
		got := atRevision(httptest.NewRequest(http.MethodGet, query, nil), 7, "").URL.RawQuery
		if got != want {
			t.Errorf("%s is sent with %s, want %s", query, got, want)
		}
	}
}
