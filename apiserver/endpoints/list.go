package endpoints

import (
	"bufio"
	"io"
	"net/http"
	"sync"
)

// gathered answers a list. Lists are encoded while they are sent, in a few small writes an object, which
// would be a frame each on the wire if they were not gathered.
func gathered(list http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		buffer := buffers.Get().(*bufio.Writer)
		buffer.Reset(w)
		list(gatheringWriter{w, buffer}, r)
		buffer.Flush() // an error is that the client has left
		buffer.Reset(io.Discard)
		buffers.Put(buffer)
	}
}

var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, 64<<10) }}

type gatheringWriter struct {
	http.ResponseWriter
	buffer *bufio.Writer
}

func (w gatheringWriter) Write(b []byte) (int, error) { return w.buffer.Write(b) }
