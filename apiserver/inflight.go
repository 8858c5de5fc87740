package apiserver

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// The defaults of kube-apiserver.
const (
	defaultMaxRequestsInFlight         = 400
	defaultMaxMutatingRequestsInFlight = 200
)

// withoutLimit is the key of a value in the context of a request that is not limited.
type withoutLimit struct{}

// WithoutLimit exempts requests with the returned context from the limits of requests in flight. It is
// for controllers in the process, which users must not starve; on a cluster they have a priority level
// of their own.
func WithoutLimit(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutLimit{}, true)
}

// limitInFlight answers 429 for requests above the limits of concurrent requests, of which
// read-only and mutating requests have one each. Long-running requests do not count, and exempt ones
// are not limited.
//
//upstream:k8s.io/apiserver/pkg/server/filters.WithMaxInFlightLimit
func (s *Server) limitInFlight(next http.Handler) http.Handler {
	s.reading = newLimiter(s.options.MaxRequestsInFlight, defaultMaxRequestsInFlight)
	s.mutating = newLimiter(s.options.MaxMutatingRequestsInFlight, defaultMaxMutatingRequestsInFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || longRunning(r, info) {
			next.ServeHTTP(w, r)
			return
		}
		limit := s.mutating
		if info.Verb == "get" || info.Verb == "list" {
			limit = s.reading
		}
		switch {
		case limit.tryAcquire():
			defer limit.release()
			next.ServeHTTP(w, r)
		case exempt(r):
			next.ServeHTTP(w, r)
		default:
			metrics.RecordDroppedRequest(r, info, metrics.APIServerComponent, limit == s.mutating)
			refuse(w, r, errors.NewTooManyRequests("Too many requests, please try again later.", retryAfter))
		}
	})
}

// exempt reports whether a request is not limited: its user is a member of system:masters, or it has a
// context of WithoutLimit.
func exempt(r *http.Request) bool {
	u, ok := request.UserFrom(r.Context())
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) || r.Context().Value(withoutLimit{}) != nil
}

// limiter counts requests in flight up to a limit. A negative limit is none.
type limiter struct {
	limit int64
	count atomic.Int64
}

func newLimiter(limit, byDefault int) *limiter {
	if limit == 0 {
		limit = byDefault
	}
	return &limiter{limit: int64(limit)}
}

func (l *limiter) tryAcquire() bool {
	if n := l.count.Add(1); l.limit >= 0 && n > l.limit {
		l.count.Add(-1)
		return false
	}
	return true
}

func (l *limiter) release() { l.count.Add(-1) }

// inFlight returns the number of requests in flight that are counted.
func (l *limiter) inFlight() int { return int(l.count.Load()) }
