package wire

import (
	"context"
	"errors"
	"io"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
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

// batch holds frames that were read together, and the events decoded from them.
type batch struct {
	frames [][]byte
	size   int
	// buf is the buffer of the frames if the batch owns it.
	buf []byte
	// err is why the stream ends after this batch; malformed is set if that is because a frame cannot
	// be parsed.
	err       error
	malformed bool
	// decodedFrames is the number of frames that were decoded to events, and returned the number of
	// events that were returned.
	events                  []watch.Event
	decodedFrames, returned int
	// decoded is closed when all frames are decoded; nil if no other goroutine decodes them.
	decoded chan struct{}
}

var batches = sync.Pool{New: func() any { return &batch{} }}

func newBatch() *batch {
	return batches.Get().(*batch)
}

// decode decodes all frames.
func (b *batch) decode(e *encoding) {
	for b.decodeNext(e) {
	}
	freeBuffer(b.buf)
	b.buf = nil
}

// decodeNext decodes the next frame and reports whether there was one.
func (b *batch) decodeNext(e *encoding) bool {
	switch {
	case b.decodedFrames < len(b.frames):
		event, err := e.decodeEvent(b.frames[b.decodedFrames])
		if b.decodedFrames++; err == nil {
			b.events = append(b.events, event)
			return true
		}
		b.err, b.decodedFrames = err, len(b.frames)
	case !b.malformed:
		return false
	}
	b.events = append(b.events, decodingError(b.err))
	b.err, b.malformed = io.EOF, false
	return true
}

// next returns the decoded events that were not returned yet, or else decodes one. It returns none
// after the last.
func (b *batch) next(e *encoding) []watch.Event {
	clear(b.events[:b.returned])
	if b.returned == len(b.events) {
		b.decodeNext(e)
	}
	more := b.events[b.returned:]
	b.returned = len(b.events)
	return more
}

// wait waits until the goroutine that decodes the batch, if any, has finished.
func (b *batch) wait() {
	if b.decoded != nil {
		<-b.decoded
	}
}

// free returns the batch to the pool.
func (b *batch) free() {
	freeBuffer(b.buf)
	clear(b.frames)
	clear(b.events)
	*b = batch{frames: b.frames[:0], events: b.events[:0]}
	batches.Put(b)
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
