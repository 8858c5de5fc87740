package apiserver

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// The defaults of a real API server.
const (
	defaultMaxRequestsInFlight         = 400
	defaultMaxMutatingRequestsInFlight = 200
)

// limitInFlight refuses requests above the number that may be under way at once, of those that change
// something and of all others. Long-running requests are not counted, and administrators not refused.
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

func privileged(r *http.Request) bool {
	who, ok := request.UserFrom(r.Context())
	return ok && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup)
}

// semaphore holds a value for each that has acquired it. A nil one has room for all.
type semaphore chan struct{}

func newSemaphore(room, byDefault int) semaphore {
	switch {
	case room < 0:
		return nil
	case room == 0:
		room = byDefault
	}
	return make(semaphore, room)
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
