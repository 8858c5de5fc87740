package endpoints

import (
	"bufio"
	"io"
	"net/http"
	"sync"
)

// buffered makes a list handler write through a buffer. The streaming encoders write several small chunks for each
// object, and each chunk would become an HTTP/2 frame.
func buffered(list http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		buffer := buffers.Get().(*bufio.Writer)
		buffer.Reset(w)
		list(bufferedWriter{w, buffer}, r)
		buffer.Flush() // fails if the client has disconnected
		buffer.Reset(io.Discard)
		buffers.Put(buffer)
	}
}

var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, 64<<10) }}

// bufferedWriter is a response writer with a buffer.
type bufferedWriter struct {
	http.ResponseWriter
	buffer *bufio.Writer
}

func (w bufferedWriter) Write(b []byte) (int, error) { return w.buffer.Write(b) }
