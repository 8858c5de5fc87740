package controlplane

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/internal/inprocess"
)

// pipeBuffer and pipeEvents are how many bytes and how many events a pipe buffers before writers block.
const pipeBuffer, pipeEvents = 256 << 10, 128

// pipe is a buffered io.Pipe, so that reader and writer need not switch goroutines for every event. It carries either bytes or the events
// of a watch.
type pipe struct {
	mu      sync.Mutex
	changed sync.Cond
	buffer  bytes.Buffer
	begun   bool          // the response has events instead of bytes; set before the header is written
	events  []watch.Event // written and not read
	read    []watch.Event // the ones that ReadEvents returned last
	grow    bool          // writers no longer block
	closed  bool          // by the writer: nothing more will be written
	readErr error         // by the reader: nothing more will be read; the error that Read returns then
}

var (
	_ inprocess.EventReader = (*pipe)(nil)
	_ inprocess.EventWriter = (*pipe)(nil)
)

func newPipe() *pipe {
	p := &pipe{}
	p.changed.L = &p.mu
	return p
}

// Write writes to the buffer. It blocks while the buffer is full.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.buffer.Len() >= pipeBuffer && !p.grow && p.readErr == nil {
		p.changed.Wait()
	}
	if p.readErr != nil {
		return len(b), nil // the context of the handler is cancelled; an error here would only be logged
	}
	p.buffer.Write(b)
	p.changed.Broadcast()
	return len(b), nil
}

// Read reads from the buffer. It blocks while the buffer is empty.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.buffer.Len() == 0 && !p.closed && p.readErr == nil {
		p.changed.Wait()
	}
	switch {
	case p.readErr != nil:
		return 0, p.readErr
	case p.buffer.Len() > 0:
		p.changed.Broadcast()
		return p.buffer.Read(b)
	default:
		return 0, io.EOF
	}
}

// Begin implements [inprocess.EventWriter].
func (p *pipe) Begin() { p.begun = true }

// WriteEvent implements [inprocess.EventWriter].
func (p *pipe) WriteEvent(e watch.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.events) >= pipeEvents && !p.grow && p.readErr == nil {
		p.changed.Wait()
	}
	if p.readErr == nil {
		p.events = append(p.events, e)
		p.changed.Broadcast()
	}
}

// ReadEvents implements [inprocess.EventReader].
func (p *pipe) ReadEvents() ([]watch.Event, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.read)
	for len(p.events) == 0 && !p.closed && p.readErr == nil {
		p.changed.Wait()
	}
	switch {
	case p.readErr != nil:
		return nil, p.readErr
	case len(p.events) > 0:
		p.changed.Broadcast()
		p.read, p.events = p.events, p.read[:0]
		return p.read, nil
	default:
		return nil, io.EOF
	}
}

// unblock lets the buffer grow without limit from now on, so that a writer can finish after its reader has stopped
// reading.
func (p *pipe) unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grow = true
	p.changed.Broadcast()
}

// closeWrite ends the stream: readers get io.EOF after the content of the buffer.
func (p *pipe) closeWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.changed.Broadcast()
}

// closeRead discards all data, written before or later. Read returns the error of the first call.
func (p *pipe) closeRead(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readErr == nil {
		p.readErr = err
		p.buffer.Reset()
		p.events = nil
	}
	p.changed.Broadcast()
}
