package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/filters"
)

// RequestTimeout is the time limit of a request, including its body. Long-running requests have no limit. A client may
// set a shorter one with the query parameter timeout.
const RequestTimeout = time.Minute

// bodyGrace is how much longer request bodies may take to arrive once the server stops.
const bodyGrace = 500 * time.Millisecond

// retryAfter is the Retry-After header of temporarily refused requests, in seconds.
const retryAfter = 1

// watchesOrConnects reports whether a request is a watch or a connection.
var watchesOrConnects = filters.BasicLongRunningRequestCheck(
	sets.NewString("watch", "proxy"),
	sets.NewString("attach", "exec", "proxy", "log", "portforward"),
)

// longRunning reports whether a request is a watch or a connection, or gets a snapshot.
func longRunning(r *http.Request, info *request.RequestInfo) bool {
	return watchesOrConnects(r, info) || !info.IsResourceRequest && info.Path == SnapshotPath
}

// boundLifetime cancels long-running requests when the server stops, and all other requests after a timeout. A stopped
// server answers 503 to new requests, and to requests with a body that does not arrive in time.
func (s *Server) boundLifetime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.stopping.Err() != nil {
			w.Header().Set("Connection", "close")
			refuse(w, r, errStopping())
			return
		}
		connection := http.NewResponseController(w)
		if info, _ := request.RequestInfoFrom(r.Context()); info != nil && longRunning(r, info) {
			_ = connection.SetWriteDeadline(time.Time{}) // fails if the transport has no deadlines
			_ = connection.SetReadDeadline(time.Time{})
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(s.stopping, cancel)()
			next.ServeHTTP(w, r.WithContext(s.gate.fence(ctx)))
			return
		}
		timeout, err := timeoutOf(r)
		if err != nil {
			refuse(w, r, apierrors.NewBadRequest(err.Error()))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		ctx, leave, err := s.gate.enter(ctx)
		if err != nil {
			refuse(w, r, apierrors.NewTimeoutError(err.Error(), retryAfter))
			return
		}
		defer leave()
		r = r.WithContext(ctx)
		if r.Body != nil && r.Body != http.NoBody {
			if timeout < RequestTimeout {
				_ = connection.SetReadDeadline(time.Now().Add(timeout))
			}
			body := newRequestBody(r.Body, s.stopping, connection)
			defer body.release() // the connection is used for another request then
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

// timeoutOf returns the timeout that the query of a request sets, and at most [RequestTimeout].
func timeoutOf(r *http.Request) (time.Duration, error) {
	if !strings.Contains(r.URL.RawQuery, "timeout=") {
		return RequestTimeout, nil
	}
	value := r.URL.Query().Get("timeout")
	if value == "" {
		return RequestTimeout, nil
	}
	timeout, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("invalid timeout specified in the request URL - %w", err)
	}
	if timeout <= 0 {
		return RequestTimeout, nil
	}
	return min(timeout, RequestTimeout), nil
}

// requestBody is a request body with a read deadline. It translates errors of the transport to API errors. When the
// server stops, the deadline becomes [bodyGrace].
type requestBody struct {
	io.ReadCloser
	stopping context.Context
	unhook   func() bool // removes the hook on stopping
	err      error       // sticky

	mu         sync.Mutex
	connection *http.ResponseController // nil after release
}

func newRequestBody(body io.ReadCloser, stopping context.Context, connection *http.ResponseController) *requestBody {
	b := &requestBody{ReadCloser: body, stopping: stopping, connection: connection}
	b.unhook = context.AfterFunc(stopping, b.shortenDeadline)
	return b
}

// shortenDeadline limits the time until the body must have arrived to [bodyGrace].
func (b *requestBody) shortenDeadline() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.connection != nil {
		_ = b.connection.SetReadDeadline(time.Now().Add(bodyGrace))
	}
}

// release ends the use of the connection. After it returns, requestBody sets no more deadlines.
func (b *requestBody) release() {
	if b.unhook() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.connection = nil
}

func (b *requestBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.err = b.translate(err)
	}
	return n, b.err
}

// translate returns the API error for an error of the transport. It returns io.EOF unchanged.
func (b *requestBody) translate(err error) error {
	switch {
	case err == io.EOF:
		b.resetDeadline()
		return err
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return apierrors.NewBadRequest(fmt.Sprintf("the request body cannot be read: %v", err))
	case b.stopping.Err() != nil:
		return errStopping()
	default:
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	}
}

// resetDeadline removes the deadline that shortenDeadline set, which would break the connection while the server still
// handles the request.
func (b *requestBody) resetDeadline() {
	if b.unhook() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.connection != nil {
		_ = b.connection.SetReadDeadline(time.Time{})
		b.connection = nil
	}
}

func errStopping() error {
	err := apierrors.NewServiceUnavailable("apiserver is shutting down")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return err
}
