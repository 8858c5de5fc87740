package shell

import (
	"context"
	"io"
	"sync"
	"syscall"
)

// pipeSize is the number of bytes that a pipe holds, as in Linux.
const pipeSize = 64 << 10

// pipe is a pipe. Readers and writers wait on a channel.
type pipe struct {
	mu               sync.Mutex
	buffer           []byte
	readers, writers int
	changed          chan struct{} // closed and replaced with each change
}

// newPipe returns the ends of a pipe.
func newPipe() (reader, writer *description) {
	p := &pipe{changed: make(chan struct{}), readers: 1, writers: 1}
	return describe(pipeReader{p}), describe(pipeWriter{p})
}

// change wakes everybody who waits. The lock is held.
func (p *pipe) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// read waits for data, for the last writer, or for the end of ctx.
func (p *pipe) read(ctx context.Context, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		p.mu.Lock()
		if len(p.buffer) > 0 {
			n := copy(b, p.buffer)
			if p.buffer = p.buffer[n:]; len(p.buffer) == 0 {
				p.buffer = nil
			}
			p.change()
			p.mu.Unlock()
			return n, nil
		}
		if p.writers == 0 {
			p.mu.Unlock()
			return 0, io.EOF
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (p *pipe) write(ctx context.Context, b []byte) (written int, err error) {
	for {
		p.mu.Lock()
		if p.readers == 0 {
			p.mu.Unlock()
			return written, syscall.EPIPE
		}
		if n := min(len(b), pipeSize-len(p.buffer)); n > 0 {
			p.buffer = append(p.buffer, b[:n]...)
			written += n
			b = b[n:]
			p.change()
		}
		changed := p.changed
		p.mu.Unlock()
		if len(b) == 0 {
			return written, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return written, context.Cause(ctx)
		}
	}
}

func (p *pipe) closeReader() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers, p.buffer = 0, nil
	p.change()
}

func (p *pipe) closeWriter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writers = 0
	p.change()
}

// pipeReader is the end of a pipe that is read.
type pipeReader struct{ *pipe }

func (pipeReader) write(context.Context, []byte) (int, error) { return 0, syscall.EBADF }
func (r pipeReader) close()                                   { r.closeReader() }

// pipeWriter is the end of a pipe that is written.
type pipeWriter struct{ *pipe }

func (pipeWriter) read(context.Context, []byte) (int, error) { return 0, syscall.EBADF }
func (w pipeWriter) close()                                  { w.closeWriter() }
