package endpoints

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// monitored serves a request, and counts it in the metrics of k8s.io/apiserver's handlers.
//
//upstream:k8s.io/apiserver/pkg/endpoints/metrics.MonitorRequest
func monitored(w http.ResponseWriter, r *http.Request, info *request.RequestInfo, serve func(http.ResponseWriter)) {
	start, ok := request.ReceivedTimestampFrom(r.Context())
	if !ok {
		start = time.Now()
	}
	response := &monitoredResponse{ResponseWriter: w, ctx: r.Context(), status: http.StatusOK}
	serve(response)
	metrics.MonitorRequest(r, monitoredVerb(info), info.APIGroup, info.APIVersion, info.Resource, info.Subresource,
		scopeOf(info), metrics.APIServerComponent, false, "", response.status, response.size, time.Since(start))
}

// monitoredVerb returns the verb of a request for the metrics. Logs and all other connections have the verb CONNECT.
//
//upstream:k8s.io/apiserver/pkg/endpoints/metrics.CanonicalVerb
//upstream:k8s.io/apiserver/pkg/endpoints/metrics.CleanVerb
func monitoredVerb(info *request.RequestInfo) string {
	switch info.Subresource {
	case "attach", "exec", "log", "portforward", "proxy":
		return "CONNECT"
	}
	return strings.ToUpper(info.Verb)
}

// scopeOf returns the scope label of a request: one object, the objects of a namespace, or all objects.
//
//upstream:k8s.io/apiserver/pkg/endpoints/metrics.CleanScope
func scopeOf(info *request.RequestInfo) string {
	switch {
	case info.Verb == "create" || pathName(info) != "":
		return "resource"
	case info.Namespace != "":
		return "namespace"
	default:
		return "cluster"
	}
}

// monitoredResponse is a response writer that records the status and counts the bytes.
//
//upstream:k8s.io/apiserver/pkg/endpoints/metrics.ResponseWriterDelegator
type monitoredResponse struct {
	http.ResponseWriter
	ctx          context.Context // of the request
	status, size int
	started      bool
	bounded      bool // the transport has the deadline of the request
}

// unboundedSize is the number of bytes after which a response has the deadline of its request.
const unboundedSize = 64 << 10

func (w *monitoredResponse) WriteHeader(status int) {
	if !w.started {
		w.status, w.started = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write fails for the rest of a large response when the request times out. The client then gets an error of the stream or connection,
// as from kube-apiserver.
//
//upstream:k8s.io/apiserver/pkg/server/filters.WithTimeout
func (w *monitoredResponse) Write(b []byte) (int, error) {
	w.started = true
	if !w.bounded && w.size+len(b) > unboundedSize {
		w.bounded = true
		if deadline, ok := w.ctx.Deadline(); ok {
			_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(deadline) // fails if the transport has no deadlines
		}
	}
	n, err := w.ResponseWriter.Write(b)
	w.size += n
	return n, err
}

// Flush implements [http.Flusher].
func (w *monitoredResponse) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Hijack implements [http.Hijacker], for logs and watches over WebSockets. When the request ends, a write that the client does not
// read fails a second later, so that the client cannot keep the server from stopping.
func (w *monitoredResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		context.AfterFunc(w.ctx, func() { _ = conn.SetWriteDeadline(time.Now().Add(time.Second)) })
	}
	return conn, buffered, err
}

// Unwrap returns the response writer for [http.ResponseController].
func (w *monitoredResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }
