package endpoints

import (
	"bufio"
	"io"
	"net/http"
	"sync"
)

// buffered makes a handler of lists write through a buffer. Lists are encoded while they are sent, in a few
// small writes an object, each of which would be a frame of its own on the wire.
func buffered(list http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		buffer := buffers.Get().(*bufio.Writer)
		buffer.Reset(w)
		list(bufferedWriter{w, buffer}, r)
		buffer.Flush() // an error is that the client has left
		buffer.Reset(io.Discard)
		buffers.Put(buffer)
	}
}

var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, 64<<10) }}

type bufferedWriter struct {
	http.ResponseWriter
	buffer *bufio.Writer
}

func (w bufferedWriter) Write(b []byte) (int, error) { return w.buffer.Write(b) }
