package wire

import (
	"io"
	"runtime"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

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

// parallel reports whether to decode the batch while more is read.
func (b *batch) parallel() bool {
	return b.err == nil && b.size >= minParallel && b.size <= chunk && len(b.frames) > 1 && runtime.GOMAXPROCS(0) > 1
}
