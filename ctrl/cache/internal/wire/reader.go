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
	// smallBuffer and chunk are how much is read at once: a chunk when much is
	// there, less while a stream waits for what comes next.
	smallBuffer, chunk = 8 << 10, 128 << 10
	// maxFrame is how large a frame may be.
	maxFrame = 16 << 20
)

var errTooLarge = errors.New("object to decode was longer than maximum allowed size")

// splitter finds frames in a stream.
type splitter interface {
	// next returns where the first frame of data begins and ends, the end being 0
	// if more has to come. It is then called again with the same data and more,
	// otherwise with what follows the frame.
	next(data []byte) (from, to int, err error)
}

// reader cuts a stream into frames.
type reader struct {
	ctx   context.Context // ends with the stream
	body  io.Reader
	split splitter
	// buf is what was read, and rest where in it the first frame begins that is
	// not yet complete.
	buf  []byte
	pos int
	// bulk is set while more comes at once than a little buffer holds.
	bulk bool
}

// next reads until a frame is complete, or the stream is over. The frames are
// valid until it is called again, unless they are kept.
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

// fill reads once.
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

// makeRoom moves what is left to the front of a buffer of the right size.
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

// cutFrames cuts off all frames that are complete.
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

// detach makes the frames that were read last valid for good.
func (r *reader) detach(b *batch) {
	b.buf = r.buf
	r.buf = append(newBuffer(chunk), r.buf[r.pos:]...)
	r.pos = 0
}

// normalize returns io.EOF for all the ways in which connections end every day.
func (r *reader) normalize(err error) error {
	if err != nil && r.ctx.Err() != nil {
		err = r.ctx.Err()
	}
	if utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) {
		return io.EOF
	}
	return err
}

// batch is frames that were read together, and the events in them.
type batch struct {
	frames [][]byte
	size   int
	// buf is what the frames are in, if nothing else uses it.
	buf []byte
	// err is why nothing comes after this batch, broken whether it is because
	// the stream makes no sense.
	err    error
	malformed bool
	// read is of how many frames there are events, and given how many of those
	// the caller has had.
	events      []watch.Event
	decodedFrames, returned int
	// decoded is closed when there are all events, if another goroutine sees to
	// it.
	decoded chan struct{}
}

var batches = sync.Pool{New: func() any { return &batch{} }}

func newBatch() *batch {
	return batches.Get().(*batch)
}

// decode makes events of all frames.
func (b *batch) decode(e *encoding) {
	for b.decodeNext(e) {
	}
	freeBuffer(b.buf)
	b.buf = nil
}

// decodeNext makes an event of the next frame, if there is one.
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

// next returns the events that are there, or makes one. After the last there is
// none.
func (b *batch) next(e *encoding) []watch.Event {
	clear(b.events[:b.returned])
	if b.returned == len(b.events) {
		b.decodeNext(e)
	}
	more := b.events[b.returned:]
	b.returned = len(b.events)
	return more
}

// wait waits until another goroutine has decoded the batch, if one is to.
func (b *batch) wait() {
	if b.decoded != nil {
		<-b.decoded
	}
}

// free lets the batch be used again.
func (b *batch) free() {
	freeBuffer(b.buf)
	clear(b.frames)
	clear(b.events)
	*b = batch{frames: b.frames[:0], events: b.events[:0]}
	batches.Put(b)
}

// chunks are buffers of that size.
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
