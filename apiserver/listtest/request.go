package listtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/apiserver/authn"
)

// Request is a request for a list.
type Request struct{ Path, Query, Accept, Encoding string }

func (r Request) String() string {
	return fmt.Sprintf("%s?%s as %s %s", r.Path, r.Query, r.Accept, r.Encoding)
}

// Send sends the request to a server.
func (r Request) Send(t testing.TB, s http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, (&url.URL{Path: r.Path, RawQuery: r.Query}).String(), nil)
	request.Header.Set("Accept", r.Accept)
	request.Header.Set("Accept-Encoding", r.Encoding)
	return serve(s, request)
}

// serve serves a request of a user who may do everything.
func serve(s http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r.WithContext(authn.WithUser(r.Context(), &user.DefaultInfo{Name: "reader", Groups: []string{user.SystemPrivilegedGroup}})))
	return w
}

// Compare sends the request to two servers. It returns the response of the first one, and how the responses differ, or "".
func (r Request) Compare(t testing.TB, ours, theirs http.Handler) (got *httptest.ResponseRecorder, difference string) {
	t.Helper()
	var want *httptest.ResponseRecorder
	var pending sync.WaitGroup
	pending.Go(func() { got = r.Send(t, ours) })
	if !strings.HasPrefix(r.Query, "watch") { // which takes time, and the time is the default of some fields
		pending.Wait()
	}
	pending.Go(func() { want = r.Send(t, theirs) })
	pending.Wait()
	return got, differ(got, want)
}
