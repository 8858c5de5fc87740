package endpoints

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/features"
)

const (
	// listBuffer is the number of bytes of a list that are written at a time.
	listBuffer = 64 << 10
	// minCompressed is the size above which lists are compressed for clients that accept it.
	//
	//upstream:k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.defaultGzipThresholdBytes
	minCompressed = 128 << 10
)

// listResponse writes the response to a list, compressed if the client accepts it and the list is large.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.deferredResponseWriter
type listResponse struct {
	ctx      context.Context // of the request, which ends at its timeout
	writer   http.ResponseWriter
	compress bool
	begun    bool // the header is sent
	to       io.Writer
	buffer   []byte
	err      error // of the client, which may have disconnected, or of the context
}

func newListResponse(w http.ResponseWriter, r *http.Request) *listResponse {
	return &listResponse{ctx: r.Context(), writer: w, compress: responsewriters.ContentEncodingSupported(r, features.APIResponseCompression) == "gzip"}
}

// begin sets the type of the response.
func (l *listResponse) begin(mediaType string) { l.writer.Header().Set("Content-Type", mediaType) }

// write appends bytes to the response.
func (l *listResponse) write(data []byte) {
	l.grow(len(data))
	l.buffer = append(l.buffer, data...)
	l.flushFull()
}

// grow makes room in the buffer. The size stays a small multiple of listBuffer unless an object is larger.
func (l *listResponse) grow(n int) {
	if cap(l.buffer)-len(l.buffer) < n {
		l.buffer = append(make([]byte, 0, max(2*cap(l.buffer), len(l.buffer)+n)), l.buffer...)
	}
}

// flushFull sends the buffer if it is full.
func (l *listResponse) flushFull() {
	if len(l.buffer) > minCompressed || len(l.buffer) > listBuffer && (l.begun || !l.compress) {
		l.flush()
	}
}

// errTimeout is kube-apiserver's error for a request that has timed out before its response begins.
//
//upstream:k8s.io/apiserver/pkg/server/filters.WithTimeoutForNonLongRunningRequests
var errTimeout = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)

// flush sends the buffer. The first call decides whether the response is compressed. When the request has ended, flush sends nothing.
func (l *listResponse) flush() {
	if l.err == nil {
		l.err = l.ctx.Err()
	}
	if !l.begun && l.err != nil {
		if errors.Is(l.err, context.DeadlineExceeded) {
			l.err = errTimeout
		}
		return
	}
	if !l.begun {
		l.begun, l.to = true, l.writer
		if l.compress && len(l.buffer) > minCompressed {
			l.writer.Header().Set("Content-Encoding", "gzip")
			l.writer.Header().Add("Vary", "Accept-Encoding")
			compressor := gzips.Get().(*gzip.Writer)
			compressor.Reset(l.writer)
			l.to = compressor
		}
		l.writer.WriteHeader(http.StatusOK)
	}
	if l.err == nil {
		_, l.err = l.to.Write(l.buffer)
	}
	l.buffer = l.buffer[:0]
}

// gzips has compressors.
var gzips = responsewriters.NewGzipWriterPoolOrDie()

// close sends the rest, or nothing at all if the request has ended before the response has begun.
func (l *listResponse) close() {
	l.flush()
	if compressor, ok := l.to.(*gzip.Writer); ok {
		if err := compressor.Close(); l.err == nil {
			l.err = err
		}
		compressor.Reset(io.Discard)
		gzips.Put(compressor)
	}
}
