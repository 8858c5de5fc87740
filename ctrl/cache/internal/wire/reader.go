package wire

import (
	"context"
	"errors"
	"io"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// smallBuffer and chunk are the sizes of the read buffer: a chunk while much data is available,
	// less while a stream waits for the next event.
	smallBuffer, chunk = 8 << 10, 128 << 10
	// maxFrame is the maximum size of a frame.
	maxFrame = 16 << 20
)

var errTooLarge = errors.New("object to decode was longer than maximum allowed size")

// splitter finds frames in a stream.
type splitter interface {
	// next returns where the first frame of data begins and ends. If the frame is incomplete, the end
	// is 0, and next is called again with the same data and more. Otherwise it is called with the data
	// after the frame.
	next(data []byte) (from, to int, err error)
}

// reader cuts a stream into frames.
type reader struct {
	ctx   context.Context // ends with the stream
	body  io.Reader
	split splitter
	// buf is the data that was read, and pos where its first incomplete frame begins.
	buf []byte
	pos int
	// bulk is set while reads return more than a small buffer holds.
	bulk bool
}

// next reads until a frame is complete or the stream has ended. The frames are valid until the next
// call, unless they are detached.
func (r *reader) next() *batch {
	b := newBatch()
	for len(b.frames) == 0 && b.err == nil {
		err := r.fill()
		r.cutFrames(b)
		if b.err == nil {
			b.err = err
		}
	}
	return b
}

// fill reads once. As io.Reader permits empty reads, it retries them.
func (r *reader) fill() error {
	r.makeRoom()
	room := r.buf[len(r.buf):cap(r.buf)]
	for range 100 {
		n, err := r.body.Read(room)
		if n > 0 || err != nil {
			r.buf = r.buf[:len(r.buf)+n]
			r.bulk = n == len(room) || n > smallBuffer
			return r.normalize(err)
		}
	}
	return io.ErrNoProgress
}

// makeRoom moves the incomplete frame to the front of a buffer of the right size.
func (r *reader) makeRoom() {
	left := r.buf[r.pos:]
	size := smallBuffer
	if r.bulk {
		size = chunk
	}
	for size <= len(left) {
		size *= 2
	}
	if size == cap(r.buf) {
		r.buf = r.buf[:copy(r.buf, left)]
	} else {
		buf := append(newBuffer(size), left...)
		freeBuffer(r.buf)
		r.buf = buf
	}
	r.pos = 0
}

// cutFrames cuts off all complete frames.
func (r *reader) cutFrames(b *batch) {
	for b.err == nil {
		var from, to int
		from, to, b.err = r.split.next(r.buf[r.pos:])
		if b.err != nil {
			b.malformed = true
			return
		}
		if to == 0 {
			return
		}
		b.frames = append(b.frames, r.buf[r.pos+from:r.pos+to])
		b.size += to - from
		r.pos += to
	}
}

// detach hands the buffer over to a batch, so that its frames remain valid.
func (r *reader) detach(b *batch) {
	b.buf = r.buf
	r.buf = append(newBuffer(chunk), r.buf[r.pos:]...)
	r.pos = 0
}

// normalize returns io.EOF for the errors with which connections usually end.
func (r *reader) normalize(err error) error {
	if err != nil && r.ctx.Err() != nil {
		err = r.ctx.Err()
	}
	if utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) {
		return io.EOF
	}
	return err
}

// chunks is a pool of buffers of that size.
var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

func newBuffer(size int) []byte {
	if size == chunk {
		return chunks.Get().(*[chunk]byte)[:0]
	}
	return make([]byte, 0, size)
}

func freeBuffer(buf []byte) {
	if cap(buf) == chunk {
		chunks.Put((*[chunk]byte)(buf[:chunk]))
	}
}
