package controlplane

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// socketBuffer is how many bytes a connection buffers in each direction.
const socketBuffer = 64 << 10

// memoryConn is one end of a connection in memory. It has buffers, as sockets do and a [net.Pipe]
// does not, and works in virtual time.
type memoryConn struct {
	in, out     *stream
	read, write deadline
}

// stream is one direction of a connection.
type stream struct {
	mu      sync.Mutex
	changed sync.Cond
	data    bytes.Buffer
	closed  bool
}

// deadline is the deadline of the reads or writes of a connection.
type deadline struct {
	timer  *time.Timer
	passed bool
}

func newMemoryConns() (a, b *memoryConn) {
	x, y := &stream{}, &stream{}
	x.changed.L, y.changed.L = &x.mu, &y.mu
	return &memoryConn{in: x, out: y}, &memoryConn{in: y, out: x}
}

func (c *memoryConn) Read(p []byte) (int, error) {
	s := c.in
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.data.Len() == 0 && !s.closed && !c.read.passed {
		s.changed.Wait()
	}
	switch {
	case c.read.passed:
		return 0, os.ErrDeadlineExceeded
	case s.data.Len() == 0:
		return 0, io.EOF
	}
	s.changed.Broadcast()
	return s.data.Read(p)
}

func (c *memoryConn) Write(p []byte) (written int, err error) {
	s := c.out
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 {
		for s.data.Len() >= socketBuffer && !s.closed && !c.write.passed {
			s.changed.Wait()
		}
		switch {
		case s.closed:
			return written, net.ErrClosed
		case c.write.passed:
			return written, os.ErrDeadlineExceeded
		}
		n, _ := s.data.Write(p[:min(len(p), socketBuffer-s.data.Len())])
		p, written = p[n:], written+n
		s.changed.Broadcast()
	}
	return written, nil
}

func (c *memoryConn) Close() error {
	c.SetDeadline(time.Time{}) // no timer is left
	for _, s := range []*stream{c.in, c.out} {
		s.mu.Lock()
		s.closed = true
		s.changed.Broadcast()
		s.mu.Unlock()
	}
	return nil
}

func (c *memoryConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }
func (c *memoryConn) RemoteAddr() net.Addr { return c.LocalAddr() }

func (c *memoryConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	c.SetWriteDeadline(t)
	return nil
}

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.read, t)
	return nil
}

func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.write, t)
	return nil
}

func (s *stream) setDeadline(d *deadline, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.passed = !t.IsZero() && !t.After(time.Now())
	s.changed.Broadcast()
	if t.IsZero() || d.passed {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(t), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d.timer == timer {
			d.passed = true
			s.changed.Broadcast()
		}
	})
	d.timer = timer
}

// memoryListener is a listener for connections in memory.
type memoryListener struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (l *memoryListener) dial(context.Context, string, string) (net.Conn, error) {
	here, there := newMemoryConns()
	select {
	case l.accepted <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
