package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Listener accepts the connections to a port of a pod.
type Listener interface {
	// Accept waits for a connection. It returns an error after Close.
	Accept() (io.ReadWriteCloser, error)
	Close() error
}

// connStream is a connection. A read that ends with its context, such as the read of read -t, loses nothing: the next read gets
// what comes.
type connStream struct {
	io.ReadWriteCloser

	mu      sync.Mutex
	rest    []byte        // was read from the connection
	err     error         // of the last read from the connection
	pending chan struct{} // not nil while a goroutine reads from the connection; the goroutine closes it
}

func (s *connStream) read(ctx context.Context, b []byte) (int, error) {
	for {
		s.mu.Lock()
		if len(s.rest) > 0 || s.err != nil {
			defer s.mu.Unlock()
			if len(s.rest) == 0 {
				return 0, s.err
			}
			n := copy(b, s.rest)
			s.rest = s.rest[n:]
			return n, nil
		}
		if s.pending == nil {
			s.pending = make(chan struct{})
			go s.fill(s.pending) // until the connection is closed, at the latest
		}
		pending := s.pending
		s.mu.Unlock()
		select {
		case <-pending:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// fill reads from the connection.
func (s *connStream) fill(done chan struct{}) {
	buffer := make([]byte, 4096)
	n, err := s.Read(buffer)
	s.mu.Lock()
	s.rest, s.err, s.pending = buffer[:n], err, nil
	s.mu.Unlock()
	close(done)
}

// write writes to the connection, which the end of the context closes.
func (s *connStream) write(ctx context.Context, b []byte) (int, error) {
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	n, err := s.Write(b)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, io.ErrClosedPipe) {
		err = syscall.EPIPE
	}
	return n, err
}

func (s *connStream) close() { _ = s.Close() }

// listens reports whether the arguments of nc make it listen.
func listens(args []string) bool {
	return slices.ContainsFunc(args[1:], func(a string) bool {
		return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "l")
	})
}

// netcat connects the standard input and output with a port, or listens on a port of the pod:
//
//	nc [-z] [-v] [-w SECONDS] HOST PORT
//	nc -l [-k] [-p] PORT [-e PROGRAM ARGUMENTS]
//
// With -e, each connection is the standard input and output of the program. With -k, nc goes on after a connection.
func netcat(c *invocation) int {
	args, program := c.args, []string(nil)
	if i := slices.Index(args, "-e"); i > 0 {
		args, program = args[:i], args[i+1:]
	}
	o, err := parseOptions(args, "lknvztN46p:w:q:s:")
	if err != nil {
		return c.errorf("%v", err)
	}
	text := o.get('p')
	if text == "" && len(o.args) > 0 {
		text = o.args[len(o.args)-1]
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return c.errorf("bad port '%s'", text)
	}
	if o.has('l') {
		return c.listenOn(int32(port), o.has('k'), program)
	}
	if len(o.args) != 2 {
		return c.errorf("missing operand")
	}
	return c.connect(o.args[0], int32(port), o)
}

// connect connects to a port of a host.
func (c *invocation) connect(host string, port int32, o *arguments) int {
	ctx, limit := c.in.ctx, time.Duration(0)
	if o.has('w') {
		var err error
		if limit, err = seconds(o.get('w')); err != nil {
			return c.errorf("%v", err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer cancel()
	}
	conn, err := c.dial(ctx, host, port)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return c.errorf("connect to %s port %d (tcp) failed: %s", host, port, errText(syscall.ECONNREFUSED))
	case errors.Is(err, syscall.ENETUNREACH):
		return c.errorf("%s: %s", host, errText(syscall.ENETUNREACH))
	case err != nil:
		return c.errorf("%v", err)
	}
	if o.has('v') {
		fmt.Fprintf(c.err, "Connection to %s %d port [tcp/*] succeeded!\n", host, port)
	}
	d := describe(&connStream{ReadWriteCloser: conn})
	if o.has('z') {
		d.release()
		return 0
	}
	return c.exchange(d, limit)
}

// ErrUnknownHost is in the errors of [Options.Dial] for a name that the DNS does not have.
var ErrUnknownHost = errors.New("no such host")

// dial connects to a port of a host.
func (c *invocation) dial(ctx context.Context, host string, port int32) (io.ReadWriteCloser, error) {
	dial, spec := c.in.process.machine.shell.dial, c.in.process.root.spec
	if dial == nil || spec.Pod == nil {
		return nil, syscall.ENETUNREACH
	}
	conn, err := dial(ctx, spec, host, port)
	if err != nil {
		c.in.step(0) // without waited, so that a loop that is refused meets the limit of steps
		return nil, err
	}
	if c.in.ctx.Err() != nil {
		_ = conn.Close()
	}
	c.in.step(0)
	c.in.process.waited()
	return conn, nil
}

// listenOn serves the connections to a port of the pod.
func (c *invocation) listenOn(port int32, again bool, program []string) int {
	listen := c.in.process.machine.shell.listen
	if listen == nil || c.in.process.root.spec.Pod == nil {
		return c.errorf("bind: %s", errText(syscall.EADDRNOTAVAIL))
	}
	l, err := listen(c.in.process.root.spec, port)
	if err != nil {
		return c.errorf("bind: %v", err)
	}
	defer l.Close()
	stop := context.AfterFunc(c.in.ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		c.in.process.waited()
		if err != nil {
			c.in.step(0)
			return c.errorf("accept: %v", err)
		}
		d := describe(&connStream{ReadWriteCloser: conn})
		if !again {
			_ = l.Close()
			return c.serve(d, program)
		}
		if err := c.spawn(d, program); err != nil {
			d.release()
			c.errorf("%v", err)
		}
	}
}

// serve executes a program with a connection, and returns its exit code. It takes over the description.
func (c *invocation) serve(d *description, program []string) int {
	if len(program) == 0 {
		return c.exchange(d, 0)
	}
	c.in.nest()
	sub := c.in.fork(c.in.process, c.in.ctx)
	defer sub.files.closeAll()
	sub.files.set(0, d)
	sub.files.set(1, d.use())
	return sub.program(program, false)
}

// spawn serves a connection in a process of its own. It takes over the description, unless it returns an error.
func (c *invocation) spawn(d *description, program []string) error {
	c.in.nest()
	sub := c.in.fork(nil, nil)
	_, err := c.in.process.fork(c.in.process.root.ctx, c.args, func(p *process) int {
		sub.process, sub.ctx = p, p.ctx
		defer sub.files.closeAll()
		own := *c
		own.in, own.out, own.err = sub, &boundWriter{in: sub, d: sub.files[1]}, sub.stderr()
		return sub.protect(func() int { return own.serve(d, program) })
	})
	if err != nil {
		sub.files.closeAll()
	}
	return err
}

// exchange copies the standard input to a connection, and the connection to the standard output until it is closed, or
// for a time after the end of the input, unless that is zero.
func (c *invocation) exchange(d *description, limit time.Duration) int {
	defer d.release()
	in := c.in
	ctx, cancel := context.WithCancel(in.ctx)
	defer cancel()
	sender, err := in.process.fork(in.ctx, c.args, func(p *process) int {
		sub := *in
		sub.process, sub.ctx = p, p.ctx
		return sub.protect(func() int {
			_, _ = io.Copy(sub.writer(d), sub.stdin())
			if limit > 0 {
				_ = p.sleep(p.ctx, limit)
				cancel()
			}
			return 0
		})
	})
	if err != nil {
		return c.errorf("%v", err)
	}
	bound := *in
	bound.ctx = ctx
	code := bound.protect(func() int {
		_, err := io.Copy(c.out, readerFunc(func(b []byte) (int, error) {
			n, err := d.read(ctx, b)
			in.process.waited()
			return n, err
		}))
		if err != nil && ctx.Err() == nil && !errors.Is(err, io.ErrClosedPipe) {
			return c.errorf("%v", err)
		}
		return 0
	})
	sender.cancel(killed(sigTERM))
	<-sender.done
	in.step(0)
	return code
}
