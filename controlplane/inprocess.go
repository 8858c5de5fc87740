package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/waitgroup"
	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/authn"
	"flyball.dev/internal/inprocess"
)

// errAborted is the error of a request with a handler that panicked with http.ErrAbortHandler.
var errAborted = errors.New("the server aborted the response")

// errStopped is the error of a request after the control plane has stopped.
var errStopped = errors.New("the control plane is stopped")

// errObjects is the error of a client that reads the bytes of a response with objects.
var errObjects = errors.New("the response has objects instead of bytes")

// inProcess is an http.RoundTripper that calls a handler in the same process, without a socket. The handler runs on the
// goroutine of the caller; only the handler of a watch has its own goroutine.
type inProcess struct {
	handler http.Handler
	// userOf returns the user of requests without credentials, by the context of a request. If it is nil, connection is the
	// connection of the client, with its certificate.
	userOf     func(context.Context) user.Info
	connection *tls.ConnectionState
	// controller exempts the requests from the limits of requests in flight, and shares the objects of watches with the client.
	controller bool
	*requests

	register sync.Once // of url
	url      *url.URL  // leads WebSockets to the transport
}

// requests counts the requests in flight of all in-process transports of a control plane.
type requests struct {
	inFlight waitgroup.SafeWaitGroup
	draining context.Context
	stop     context.CancelFunc // cancels draining
}

func newInProcess(handler http.Handler, user user.Info) *inProcess {
	t := &inProcess{handler: handler, userOf: always(user), requests: &requests{}}
	t.draining, t.stop = context.WithCancel(context.Background())
	return t
}

// as returns a transport for the requests of another user.
func (t *inProcess) as(user user.Info) *inProcess {
	return &inProcess{handler: t.handler, userOf: always(user), requests: t.requests}
}

// always returns a function that returns a user.
func always(u user.Info) func(context.Context) user.Info {
	return func(context.Context) user.Info { return u }
}

// asController returns a transport for the requests of a controller. Its user may depend on the context of a request. The
// limits of requests in flight do not apply. Watches share objects with the server.
func (t *inProcess) asController(userOf func(context.Context) user.Info) *inProcess {
	return &inProcess{handler: t.handler, userOf: userOf, controller: true, requests: t.requests}
}

// over returns a transport for the requests of a client with a TLS connection.
func (t *inProcess) over(connection *tls.ConnectionState) *inProcess {
	return &inProcess{handler: t.handler, connection: connection, requests: t.requests}
}

// drain refuses new requests and waits for the requests in flight to return. It does not wait until clients have read
// the responses.
func (t *requests) drain() {
	t.stop()
	t.inFlight.Wait()
}

// RoundTrip implements http.RoundTripper.
func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if t.inFlight.Add(1) != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, errStopped
	}
	if isStream(r) {
		return t.stream(r)
	}
	defer t.inFlight.Done()
	req, deadline := t.serverRequest(r, r.Context())
	defer req.Body.Close()
	w := &bufferedWriter{header: http.Header{}, bodyDeadline: deadline}
	if !t.serve(w, req) {
		return nil, errAborted
	}
	if r.Context().Err() != nil && w.status() >= http.StatusBadRequest {
		return nil, context.Cause(r.Context()) // the error status is a consequence of the cancellation
	}
	return response(r, w.status(), w.header, io.NopCloser(bytes.NewReader(w.body.Bytes())), int64(w.body.Len())), nil
}

// serve calls the handler and reports whether it returned. A handler aborts a response by a panic with
// http.ErrAbortHandler; an HTTP server would then close the connection.
func (t *inProcess) serve(w http.ResponseWriter, r *http.Request) (returned bool) {
	defer func() {
		if reason := recover(); reason != nil && reason != http.ErrAbortHandler {
			panic(reason)
		}
	}()
	t.handler.ServeHTTP(w, r)
	return true
}

// serverRequest returns the request in the form in which an HTTP server passes it to the handler, and the deadline of
// its body.
func (t *inProcess) serverRequest(r *http.Request, ctx context.Context) (*http.Request, bodyDeadline) {
	req := r.WithContext(t.serverContext(ctx))
	req.TLS = t.connection
	req.Header = r.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.RequestURI = r.URL.RequestURI()
	req.RemoteAddr = "in-process"
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/2.0", 2, 0
	switch {
	case req.Body == nil:
		req.Body = http.NoBody
	case req.GetBody == nil: // or else the body is in memory, and reads do not block
		body := newDeadlineBody(ctx, req.Body)
		req.Body = body
		return req, bodyDeadline{body}
	}
	return req, bodyDeadline{}
}

// serverContext returns the context of a request with its user.
func (t *inProcess) serverContext(ctx context.Context) context.Context {
	if t.userOf != nil {
		ctx = authn.WithUser(ctx, t.userOf(ctx))
	}
	if t.controller {
		ctx = apiserver.WithoutLimit(ctx)
	}
	return ctx
}

// isWatch reports whether a request is a watch. The response of a watch does not end.
func isWatch(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "watch=") {
		switch r.URL.Query().Get("watch") {
		case "true", "1":
			return true
		}
	}
	return strings.Contains(r.URL.Path, "/watch/")
}

// stream runs the handler in a goroutine and returns when the header of the response is written. For an error response
// it also waits for the body, so that a client that is cancelled in the meantime does not get another error.
func (t *inProcess) stream(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	w := &streamWriter{header: http.Header{}, started: make(chan struct{}), pipe: newPipe()}
	canceled := func() { w.pipe.closeRead(context.Cause(r.Context())) }
	unhook := context.AfterFunc(r.Context(), canceled)
	go func() {
		defer t.inFlight.Done()
		defer context.AfterFunc(t.draining, w.pipe.unblock)()
		defer cancel()
		defer unhook()
		if t.SharesObjects() && inprocess.AsksForObjects(ctx) {
			ctx = inprocess.WithEventWriter(ctx, w.pipe)
		}
		req, deadline := t.serverRequest(r, ctx)
		defer req.Body.Close()
		w.bodyDeadline = deadline
		switch returned := t.serve(w, req); {
		case !returned:
			w.pipe.closeRead(errAborted)
		case r.Context().Err() != nil:
			canceled() // the handler may have returned because of it before the hook was called
		}
		w.finish()
	}()
	<-w.started
	if w.code == http.StatusOK {
		body := &streamBody{w.pipe, cancel}
		if w.pipe.begun {
			return response(r, w.code, w.sent, &eventBody{body, w.pipe}, -1), nil
		}
		return response(r, w.code, w.sent, body, -1), nil
	}
	body, err := io.ReadAll(w.pipe)
	if err != nil {
		return nil, err
	}
	return response(r, w.code, w.sent, io.NopCloser(bytes.NewReader(body)), int64(len(body))), nil
}

// response returns a response with the given header and body.
func response(r *http.Request, code int, header http.Header, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Body: body, ContentLength: length, Request: r,
	}
}

// bufferedWriter is a ResponseWriter that buffers the whole response.
type bufferedWriter struct {
	bodyDeadline
	header http.Header
	code   int
	body   bytes.Buffer
}

func (w *bufferedWriter) Header() http.Header { return w.header }
func (w *bufferedWriter) Flush()              {}

// CloseNotify makes the filters of k8s.io/apiserver keep the method Flush. Its channel never receives.
func (w *bufferedWriter) CloseNotify() <-chan bool { return nil }

func (w *bufferedWriter) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

func (w *bufferedWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *bufferedWriter) status() int {
	if w.code == 0 {
		return http.StatusOK
	}
	return w.code
}

// streamWriter is a ResponseWriter that writes the response to a pipe.
type streamWriter struct {
	bodyDeadline
	header  http.Header
	sent    http.Header // the header when it was written
	code    int
	once    sync.Once
	started chan struct{} // closed when the header is written
	pipe    *pipe
}

func (w *streamWriter) Header() http.Header { return w.header }
func (w *streamWriter) Flush()              { w.WriteHeader(http.StatusOK) }

// CloseNotify makes the filters of k8s.io/apiserver keep the method Flush. Its channel never receives.
func (w *streamWriter) CloseNotify() <-chan bool { return nil }

func (w *streamWriter) WriteHeader(code int) {
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		close(w.started)
	})
}

func (w *streamWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

// finish ends the response.
func (w *streamWriter) finish() {
	w.WriteHeader(http.StatusOK)
	w.pipe.closeWrite()
}

// streamBody is the body of a watch response. Closing it cancels the context of the handler.
type streamBody struct {
	pipe   *pipe
	cancel context.CancelFunc
}

func (b *streamBody) Read(p []byte) (int, error) { return b.pipe.Read(p) }

func (b *streamBody) Close() error {
	b.cancel()
	b.pipe.closeRead(http.ErrBodyReadAfterClose)
	return nil
}

// eventBody is the body of a watch response with objects instead of bytes. Any other body is no [inprocess.EventReader].
type eventBody struct {
	*streamBody
	inprocess.EventReader
}

// Read fails: the client has asked for objects.
func (b *eventBody) Read([]byte) (int, error) { return 0, errObjects }
