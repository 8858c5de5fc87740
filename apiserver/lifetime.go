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

// RequestTimeout bounds every request but the long-running ones, body included. A client may ask for
// less with the query parameter timeout.
const RequestTimeout = time.Minute

// bodyGrace is how long the bodies that are under way have when the server stops.
const bodyGrace = 500 * time.Millisecond

// retryAfter is how many seconds clients are asked to wait that are refused for now.
const retryAfter = 1

// longRunning tells watches and connections from requests that have an end.
var longRunning = filters.BasicLongRunningRequestCheck(
	sets.NewString("watch", "proxy"),
	sets.NewString("attach", "exec", "proxy", "log", "portforward"),
)

// boundLifetime ends long-running requests when the server stops, and all others after a while. A server
// that has stopped refuses what comes, and requests whose body does not.
func (s *Server) boundLifetime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.stopping.Err() != nil {
			w.Header().Set("Connection", "close")
			refuse(w, r, errStopping())
			return
		}
		connection := http.NewResponseController(w)
		if info, _ := request.RequestInfoFrom(r.Context()); info != nil && longRunning(r, info) {
			_ = connection.SetWriteDeadline(time.Time{}) // a transport without deadlines has none to lift
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(s.stopping, cancel)()
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		timeout, err := timeoutOf(r)
		if err != nil {
			refuse(w, r, apierrors.NewBadRequest(err.Error()))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		r = r.WithContext(ctx)
		if r.Body != nil && r.Body != http.NoBody {
			if timeout < RequestTimeout {
				_ = connection.SetReadDeadline(time.Now().Add(timeout))
			}
			body := newRequestBody(r.Body, s.stopping, connection)
			defer body.release() // the connection is not the request's after this
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

// timeoutOf is how long the request may take: what its client asks for, but no more than all others.
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

// requestBody is a body whose errors are those that its sender should get: the transport's deadline for
// it is the request's timeout, and it gets little more time when the server stops.
type requestBody struct {
	io.ReadCloser
	stopping context.Context
	unhook   func() bool
	err      error // with which the body has ended

	mu         sync.Mutex
	connection *http.ResponseController // nil when it is not the body's any more
}

func newRequestBody(body io.ReadCloser, stopping context.Context, connection *http.ResponseController) *requestBody {
	b := &requestBody{ReadCloser: body, stopping: stopping, connection: connection}
	b.unhook = context.AfterFunc(stopping, b.hurry)
	return b
}

// hurry leaves the body the time to arrive if it is being sent.
func (b *requestBody) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.connection != nil {
		_ = b.connection.SetReadDeadline(time.Now().Add(bodyGrace))
	}
}

// release lets go of the connection, which can be used for something else when it returns.
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
		b.err = b.ended(err)
	}
	return n, b.err
}

// ended is the error to end the body with in place of the transport's.
func (b *requestBody) ended(err error) error {
	switch {
	case err == io.EOF:
		b.arrived()
		return err
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return apierrors.NewBadRequest(fmt.Sprintf("the request body cannot be read: %v", err))
	case b.stopping.Err() != nil:
		return errStopping()
	default:
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	}
}

// arrived lifts a deadline that came from a hurry, which would end the connection while the request is
// carried out.
func (b *requestBody) arrived() {
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
