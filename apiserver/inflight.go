package apiserver

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// The defaults of kube-apiserver.
const (
	defaultMaxRequestsInFlight         = 400
	defaultMaxMutatingRequestsInFlight = 200
)

// limitInFlight answers 429 for requests above the limits of concurrent requests, of which
// read-only and mutating requests have one each. Long-running requests do not count, and members of
// system:masters are not limited.
func (s *Server) limitInFlight(next http.Handler) http.Handler {
	reading := newSemaphore(s.options.MaxRequestsInFlight, defaultMaxRequestsInFlight)
	mutating := newSemaphore(s.options.MaxMutatingRequestsInFlight, defaultMaxMutatingRequestsInFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || longRunning(r, info) {
			next.ServeHTTP(w, r)
			return
		}
		limit := mutating
		if info.Verb == "get" || info.Verb == "list" {
			limit = reading
		}
		switch {
		case limit.tryAcquire():
			defer limit.release()
			next.ServeHTTP(w, r)
		case privileged(r):
			next.ServeHTTP(w, r)
		default:
			refuse(w, r, errors.NewTooManyRequests("Too many requests, please try again later.", retryAfter))
		}
	})
}

// privileged reports whether the user is a member of system:masters.
func privileged(r *http.Request) bool {
	u, ok := request.UserFrom(r.Context())
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

// semaphore is a counting semaphore with an element for each holder. A nil one has no limit.
type semaphore chan struct{}

func newSemaphore(limit, byDefault int) semaphore {
	switch {
	case limit < 0:
		return nil
	case limit == 0:
		limit = byDefault
	}
	return make(semaphore, limit)
}

func (s semaphore) tryAcquire() bool {
	if s == nil {
		return true
	}
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s semaphore) release() {
	if s != nil {
		<-s
	}
}
