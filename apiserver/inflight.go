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

// The default limits of kube-apiserver.
const (
	defaultMaxRequestsInFlight         = 400
	defaultMaxMutatingRequestsInFlight = 200
)

// withoutLimit is the context key of WithoutLimit.
type withoutLimit struct{}

// WithoutLimit exempts requests with the returned context from the limits of requests in flight. It is for controllers
// in the same process, which users must not starve; in a cluster, controllers have their own priority level.
func WithoutLimit(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutLimit{}, true)
}

// limitInFlight answers 429 for requests above the limits of concurrent requests. Read-only and mutating requests have
// separate limits. Long-running requests do not count, and exempt requests are not limited.
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

// exempt reports whether the limits do not apply to a request: its user is a member of system:masters, or its context
// comes from WithoutLimit.
func exempt(r *http.Request) bool {
	u, ok := request.UserFrom(r.Context())
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) || r.Context().Value(withoutLimit{}) != nil
}

// limiter counts requests in flight up to a limit. A negative limit means no limit.
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

// inFlight returns the number of counted requests in flight.
func (l *limiter) inFlight() int { return int(l.count.Load()) }
