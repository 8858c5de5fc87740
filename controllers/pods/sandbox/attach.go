package sandbox

import (
	"context"
	"errors"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods/runtime"
)

// maxPending is the number of bytes that an attached client may not have read yet.
const maxPending = 1 << 20

// errSlow is the error of an attached client that does not read.
var errSlow = errors.New("the client does not read the output of the container")

// attachments connects clients to a main process.
type attachments struct {
	in     *io.PipeReader // nil without standard input
	out    *io.PipeWriter
	once   bool // standard input ends with the first client
	resize chan runtime.TerminalSize

	mu      sync.Mutex
	clients map[*attached]bool
	closed  bool
}

// attached is an attached client.
type attached struct {
	mu      sync.Mutex
	pending []chunk
	size    int
	slow    bool
	wake    chan struct{} // has a place for one
}

// chunk is a part of the output.
type chunk struct {
	stderr bool
	data   []byte
}

func (a *attachments) init(c *corev1.Container) {
	a.clients = map[*attached]bool{}
	a.once = c.StdinOnce
	if c.Stdin {
		a.in, a.out = io.Pipe()
	}
	if c.TTY {
		a.resize = make(chan runtime.TerminalSize, 1)
	}
}

// stdin returns the standard input of the process.
func (a *attachments) stdin() io.Reader {
	if a.in == nil {
		return nil
	}
	return a.in
}

// write sends output to the clients. It does not wait for them.
func (a *attachments) write(stderr bool, p []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.clients) == 0 {
		return
	}
	data := append([]byte(nil), p...)
	for c := range a.clients {
		c.add(chunk{stderr, data})
	}
}

// close disconnects the clients, and ends standard input.
func (a *attachments) close() {
	a.mu.Lock()
	a.closed = true
	for c := range a.clients {
		c.notify()
	}
	a.mu.Unlock()
	if a.in != nil {
		_ = a.in.CloseWithError(io.ErrClosedPipe)
		_ = a.out.Close()
	}
}

func (c *attached) add(k chunk) {
	c.mu.Lock()
	if c.size += len(k.data); c.size > maxPending {
		c.slow, c.pending = true, nil
	}
	if !c.slow {
		c.pending = append(c.pending, k)
	}
	c.mu.Unlock()
	c.notify()
}

func (c *attached) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take returns the pending output.
func (c *attached) take() (chunks []chunk, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slow {
		return nil, errSlow
	}
	chunks, c.pending, c.size = c.pending, nil, 0
	return chunks, nil
}

// connect connects a client until done is closed or ctx ends.
func (a *attachments) connect(ctx context.Context, s runtime.Streams, done <-chan struct{}) error {
	c := &attached{wake: make(chan struct{}, 1)}
	a.mu.Lock()
	a.clients[c] = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.clients, c)
	}()
	if s.Stdin != nil && a.out != nil {
		go a.feed(s.Stdin)
	}
	for {
		chunks, err := c.take()
		if err != nil {
			return err
		}
		for _, k := range chunks {
			if err := k.writeTo(s); err != nil {
				return err
			}
		}
		if len(chunks) > 0 {
			continue
		}
		select {
		case <-c.wake:
		case <-done:
			if chunks, _ = c.take(); len(chunks) == 0 {
				return nil
			}
			for _, k := range chunks {
				if err := k.writeTo(s); err != nil {
					return err
				}
			}
			return nil
		case size, ok := <-s.Resize:
			if !ok {
				s.Resize = nil
				continue
			}
			a.resized(size)
		case <-ctx.Done():
			return nil
		}
	}
}

// feed copies the input of a client to the process. It ends with the input, or with the process.
func (a *attachments) feed(stdin io.Reader) {
	if _, err := io.Copy(a.out, stdin); err == nil && a.once {
		_ = a.out.Close()
	}
}

// resized tells the process of the latest size.
func (a *attachments) resized(size runtime.TerminalSize) {
	if a.resize == nil {
		return
	}
	select {
	case <-a.resize: // nobody has read the size before
	default:
	}
	select {
	case a.resize <- size:
	default:
	}
}

func (k chunk) writeTo(s runtime.Streams) error {
	w := s.Stdout
	if k.stderr {
		w = s.Stderr
	}
	if w == nil {
		return nil
	}
	_, err := w.Write(k.data)
	return err
}
