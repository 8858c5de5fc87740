package controlplane

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/apiserver/authn"
)

// errAborted is what a request gets whose handler gave up in the middle of its answer.
var errAborted = errors.New("the server aborted the answer")

// errStopped is what a request gets that comes after the control plane has stopped.
var errStopped = errors.New("the control plane is stopped")

// inProcess carries requests to a handler in the same process, without a socket. A request that is
// answered at once runs on the goroutine of its caller; only a watch gets one of its own.
type inProcess struct {
	handler http.Handler
	user    user.Info
	requests
	draining context.Context
	stop     context.CancelFunc // begins the draining
}

func newInProcess(handler http.Handler, user user.Info) *inProcess {
	t := &inProcess{handler: handler, user: user}
	t.draining, t.stop = context.WithCancel(context.Background())
	return t
}

// drain takes no more requests and waits for those under way, but not for anyone to read the answers.
func (t *inProcess) drain() {
	t.stop()
	t.requests.drain()
}

func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if !t.enter() {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, errStopped
	}
	if streams(r) {
		return t.stream(r)
	}
	defer t.leave()
	req, deadline := t.arrived(r, r.Context())
	defer req.Body.Close()
	w := &buffered{header: http.Header{}, bodyDeadline: deadline}
	if !t.serve(w, req) {
		return nil, errAborted
	}
	if r.Context().Err() != nil && w.status() >= http.StatusBadRequest {
		return nil, context.Cause(r.Context()) // it is the caller who gave up, and not the server that is in trouble
	}
	return response(r, w.status(), w.header, io.NopCloser(bytes.NewReader(w.body.Bytes())), int64(w.body.Len())), nil
}

// serve runs the handler and tells whether it came to its end. A handler aborts by a panic, which a
// server on a socket takes for a reason to hang up.
func (t *inProcess) serve(w http.ResponseWriter, r *http.Request) (done bool) {
	defer func() {
		if reason := recover(); reason != nil && reason != http.ErrAbortHandler {
			panic(reason)
		}
	}()
	t.handler.ServeHTTP(w, r)
	return true
}

// arrived is the request as a server would see it, and how the server can end its body.
func (t *inProcess) arrived(r *http.Request, ctx context.Context) (*http.Request, bodyDeadline) {
	req := r.WithContext(authn.WithUser(ctx, t.user))
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
	case req.GetBody == nil: // or else it is in memory, and never stalls
		body := newStallable(ctx, req.Body)
		req.Body = body
		return req, bodyDeadline{body}
	}
	return req, bodyDeadline{}
}

// streams tells whether the answer goes on for as long as the client likes.
func streams(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "watch=") {
		switch r.URL.Query().Get("watch") {
		case "true", "1":
			return true
		}
	}
	return strings.Contains(r.URL.Path, "/watch/")
}

// stream runs the handler beside its caller and returns when the answer has begun. An answer that is an
// error comes whole: a client that leaves while it reads one would take that for another error.
func (t *inProcess) stream(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	w := &streamed{header: http.Header{}, begun: make(chan struct{}), pipe: newPipe()}
	left := func() { w.pipe.closeRead(context.Cause(r.Context())) }
	unhook := context.AfterFunc(r.Context(), left)
	go func() {
		defer t.leave()
		defer context.AfterFunc(t.draining, w.pipe.lift)()
		defer cancel()
		defer unhook()
		req, deadline := t.arrived(r, ctx)
		defer req.Body.Close()
		w.bodyDeadline = deadline
		switch done := t.serve(w, req); {
		case !done:
			w.pipe.closeRead(errAborted)
		case r.Context().Err() != nil:
			left() // the handler may have ended for that before the hook was called
		}
		w.finish()
	}()
	<-w.begun
	if w.code == http.StatusOK {
		return response(r, w.code, w.sent, &streamBody{w.pipe, cancel}, -1), nil
	}
	body, err := io.ReadAll(w.pipe)
	if err != nil {
		return nil, err
	}
	return response(r, w.code, w.sent, io.NopCloser(bytes.NewReader(body)), int64(len(body))), nil
}

func response(r *http.Request, code int, header http.Header, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Body: body, ContentLength: length, Request: r,
	}
}

// buffered keeps a whole answer.
type buffered struct {
	bodyDeadline
	header http.Header
	code   int
	body   bytes.Buffer
}

func (w *buffered) Header() http.Header { return w.header }
func (w *buffered) Flush()              {}

func (w *buffered) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

func (w *buffered) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *buffered) status() int {
	if w.code == 0 {
		return http.StatusOK
	}
	return w.code
}

// streamed hands an answer on while it is written.
type streamed struct {
	bodyDeadline
	header http.Header
	sent   http.Header // the header as it was when the answer began
	code   int
	once   sync.Once
	begun  chan struct{}
	pipe   *pipe
}

func (w *streamed) Header() http.Header { return w.header }
func (w *streamed) Flush()              { w.WriteHeader(http.StatusOK) }

func (w *streamed) WriteHeader(code int) {
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		close(w.begun)
	})
}

func (w *streamed) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

func (w *streamed) finish() {
	w.WriteHeader(http.StatusOK)
	w.pipe.closeWrite()
}

// streamBody ends the handler when its reader closes it.
type streamBody struct {
	*pipe
	cancel context.CancelFunc
}

func (b *streamBody) Close() error {
	b.cancel()
	b.closeRead(http.ErrBodyReadAfterClose)
	return nil
}
