package apiserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// limited is a server that blocks requests until the test releases them.
type limited struct {
	handler http.Handler
	entered chan struct{}
	release chan struct{}
	done    sync.WaitGroup
}

func newLimited(o Options) *limited {
	l := &limited{entered: make(chan struct{}), release: make(chan struct{})}
	s := &Server{options: o}
	l.handler = s.addRequestInfo(s.limitInFlight(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.entered <- struct{}{}
		<-l.release
	})))
	return l
}

func (l *limited) serve(method, path, group string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r = r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "someone", Groups: []string{group}}))
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, r)
	return w
}

// start sends a request and returns when its handler runs.
func (l *limited) start(method, path, group string) {
	l.done.Go(func() { l.serve(method, path, group) })
	<-l.entered
}

func (l *limited) finish() {
	close(l.release)
	l.done.Wait()
}

const pods = "/api/v1/namespaces/default/pods"

func TestRequestsInFlight(t *testing.T) {
	for _, tc := range []struct {
		name              string
		options           Options
		reading, mutating int
	}{
		{"by default", Options{}, 400, 200},
		{"as set", Options{MaxRequestsInFlight: 3, MaxMutatingRequestsInFlight: 2}, 3, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLimited(tc.options)
			for range tc.reading {
				l.start(http.MethodGet, pods, "guests")
			}
			for range tc.mutating {
				l.start(http.MethodPost, pods, "guests")
			}
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				w := l.serve(method, pods+"/x", "guests")
				if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
					t.Errorf("%s above the limit: %d %v %s; want 429", method, w.Code, w.Header(), w.Body)
				}
			}
			for _, more := range []struct{ method, path, group string }{
				{http.MethodGet, pods, user.SystemPrivilegedGroup},
				{http.MethodPost, pods, user.SystemPrivilegedGroup},
				{http.MethodGet, pods + "?watch=true", "guests"},
				{http.MethodGet, pods + "/x/log", "guests"},
				{http.MethodPost, pods + "/x/exec", "guests"},
			} {
				l.start(more.method, more.path, more.group)
			}
			l.finish()
			l.release = make(chan struct{})
			l.start(http.MethodGet, pods, "guests") // there is room again
			l.start(http.MethodPost, pods, "guests")
			l.finish()
		})
	}
}

// TestWithoutLimit: requests of controllers in the process pass when users have taken all room, and
// take room that is free.
func TestWithoutLimit(t *testing.T) {
	l := newLimited(Options{MaxMutatingRequestsInFlight: 1})
	unlimited := func() {
		r := httptest.NewRequestWithContext(WithoutLimit(t.Context()), http.MethodPost, pods, nil)
		l.handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	for range 3 {
		l.done.Go(unlimited)
		<-l.entered
	}
	if w := l.serve(http.MethodPost, pods, "guests"); w.Code != http.StatusTooManyRequests {
		t.Errorf("a user gets %d", w.Code)
	}
	l.finish()
}

func TestNoLimitOfRequestsInFlight(t *testing.T) {
	l := newLimited(Options{MaxRequestsInFlight: -1, MaxMutatingRequestsInFlight: -1})
	for range 500 {
		l.start(http.MethodGet, pods, "guests")
		l.start(http.MethodDelete, fmt.Sprint(pods, "/x"), "guests")
	}
	l.finish()
}
