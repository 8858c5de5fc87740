package wire

import (
	"context"
	"io"
	"runtime"
	"sync"

	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/internal/inprocess"
)

// minParallel is the number of bytes that must be available at once to make it worthwhile to decode
// them on another core.
const minParallel = 16 << 10

// Stream is an open watch. It is used by one goroutine.
type Stream struct {
	encoding *encoding
	reader   reader
	events   inprocess.EventReader // nil if the events are decoded
	close    func()
	// ahead receives the batches in order while a goroutine reads ahead. That goroutine owns the
	// reader until it closes the channel.
	ahead chan *batch
	// current is the batch with the events that are being returned; err is why there is none.
	current *batch
	err     error
}

// newStream returns a stream of a watch's body. An empty one has ended.
func newStream(ctx context.Context, body watchBody) *Stream {
	if body.ReadCloser == nil {
		return &Stream{err: io.EOF, close: func() {}}
	}
	closeBody := sync.OnceFunc(func() { body.Close() })
	stop := context.AfterFunc(ctx, closeBody)
	events, _ := body.ReadCloser.(inprocess.EventReader)
	return &Stream{
		events:   events,
		encoding: body.encoding,
		reader:   reader{ctx: ctx, body: body, split: body.encoding.newSplitter()},
		close:    func() { stop(); closeBody() },
	}
}

// Next waits for and returns the next events, at least one. A frame that cannot be decoded becomes
// an error event, as in client-go, and ends the stream. Next returns io.EOF after the server or the
// connection has ended it, and other read errors unchanged. The caller owns the events, but must not change what the
// objects refer to if the resource SharesObjects; the slice is valid until the next call.
func (s *Stream) Next() ([]watch.Event, error) {
	for s.err == nil {
		if s.events != nil {
			events, err := s.events.ReadEvents()
			if err == nil {
				return events, nil
			}
			s.err = s.reader.normalize(err)
			break
		}
		if s.current == nil {
			s.current = s.nextBatch()
		}
		if events := s.current.next(s.encoding); len(events) > 0 {
			return events, nil
		}
		s.err = s.current.err
		s.current.free()
		s.current = nil
	}
	return nil, s.err
}

// nextBatch returns the next batch. A batch that was not read ahead is decoded event by event, so
// that no event waits for those behind it.
func (s *Stream) nextBatch() *batch {
	if s.ahead != nil {
		if b, ok := <-s.ahead; ok {
			b.wait()
			return b
		}
		s.ahead = nil
	}
	b := s.reader.next()
	if b.parallel() {
		s.reader.detach(b)
		s.ahead = make(chan *batch, runtime.GOMAXPROCS(0))
		go s.readAhead(s.ahead)
	}
	return b
}

// readAhead reads batches, decodes the large ones concurrently, and ends after a small one.
func (s *Stream) readAhead(to chan<- *batch) {
	defer close(to)
	for {
		b := s.reader.next()
		if b.parallel() {
			s.reader.detach(b)
			b.decoded = make(chan struct{})
			to <- b
			go func() {
				defer close(b.decoded)
				b.decode(s.encoding)
			}()
			continue
		}
		b.decode(s.encoding)
		more := b.err == nil && b.size >= minParallel
		to <- b
		if !more {
			return
		}
	}
}

// Close ends the stream and waits for its goroutines.
func (s *Stream) Close() {
	s.close()
	if s.ahead != nil {
		for b := range s.ahead {
			b.wait()
		}
	}
	s.err = io.EOF
}
