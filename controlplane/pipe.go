package controlplane

import (
	"bytes"
	"io"
	"sync"
)

// pipeRoom is how many bytes a writer may be ahead of its reader.
const pipeRoom = 256 << 10

// pipe is an io.Pipe with some room, so that writer and reader need not meet for every event.
type pipe struct {
	mu      sync.Mutex
	changed sync.Cond
	data    bytes.Buffer
	lifted  bool  // writers no longer wait for room
	ended   bool  // no more will be written
	failed  error // nobody reads any more; what a late reader gets
}

func newPipe() *pipe {
	p := &pipe{}
	p.changed.L = &p.mu
	return p
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.data.Len() >= pipeRoom && !p.lifted && p.failed == nil {
		p.changed.Wait()
	}
	if p.failed != nil {
		return len(b), nil // the handler learns from its context; an error here would only be logged
	}
	p.data.Write(b)
	p.changed.Broadcast()
	return len(b), nil
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.data.Len() == 0 && !p.ended && p.failed == nil {
		p.changed.Wait()
	}
	switch {
	case p.failed != nil:
		return 0, p.failed
	case p.data.Len() > 0:
		p.changed.Broadcast()
		return p.data.Read(b)
	default:
		return 0, io.EOF
	}
}

// lift makes room for all that is still written, so that a writer can end whose reader has stopped
// reading.
func (p *pipe) lift() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lifted = true
	p.changed.Broadcast()
}

func (p *pipe) closeWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.changed.Broadcast()
}

func (p *pipe) closeRead(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
		p.data.Reset()
	}
	p.changed.Broadcast()
}
