package apiserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/apiserver/authn"
)

// sizes is a response that records the total size and the size of the largest write.
type sizes struct {
	header       http.Header
	total, write int
}

func (w *sizes) Header() http.Header { return w.header }
func (w *sizes) WriteHeader(int)     {}
func (w *sizes) Write(p []byte) (int, error) {
	w.total += len(p)
	w.write = max(w.write, len(p))
	return len(p), nil
}

// TestListsAreStreamed checks that no encoded list is in memory as a whole.
func TestListsAreStreamed(t *testing.T) {
	s := &fuzzed{tb: t}
	s.start()
	defer s.stop()
	const size = 10 << 10
	for n := range 200 {
		for _, o := range []struct{ path, body string }{
			{mapsPath, `{"metadata":{"name":"m%d"},"data":{"a":"%s"}}`},
			{customPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"m%d"},"spec":{"free":{"a":"%s"}}}`},
		} {
			if w := s.send(http.MethodPost, o.path, "", "application/json", "", fmt.Sprintf(o.body, n, strings.Repeat("x", size))); w.Code != http.StatusCreated {
				t.Fatal(w.Code, w.Body)
			}
		}
	}
	for _, tc := range []struct{ path, accept string }{
		{mapsPath, "application/json"},
		{mapsPath, "application/vnd.kubernetes.protobuf"},
		{customPath, "application/json"},
	} {
		r := httptest.NewRequest(http.MethodGet, tc.path, nil)
		r = r.WithContext(authn.WithUser(r.Context(), &user.DefaultInfo{Name: "reader", Groups: []string{user.SystemPrivilegedGroup}}))
		r.Header.Set("Accept", tc.accept)
		w := &sizes{header: http.Header{}}
		s.server.ServeHTTP(w, r)
		if w.total < 200*size || w.write > w.total/4 {
			t.Errorf("%s as %s was written in chunks of up to %d bytes, of %d", tc.path, tc.accept, w.write, w.total)
		}
	}
}
