package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/streaming/pkg/httpstream"
)

// maxOutput bounds the output of the path /run.
const maxOutput = 1 << 20

// limitedBuffer keeps the beginning of an output. It may be written by several goroutines at once.
type limitedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(p[:min(len(p), maxOutput-l.b.Len())])
	return len(p), nil
}

func (l *limitedBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// upgrading is a ResponseWriter for an upgrade. It knows the connection, and when the client goes.
type upgrading struct {
	http.ResponseWriter
	gone chan struct{} // closed when the client has gone

	mu   sync.Mutex
	conn *watched
}

func newUpgrading(w http.ResponseWriter) *upgrading {
	return &upgrading{ResponseWriter: w, gone: make(chan struct{})}
}

// Hijack implements [http.Hijacker].
func (u *upgrading) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	c := &watched{Conn: conn, from: io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn), gone: u.gone}
	u.mu.Lock()
	u.conn = c
	u.mu.Unlock()
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

// finish makes the end of the connection wait for a client that still sends.
func (u *upgrading) finish() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		u.conn.finished.Store(true)
	}
}

// close closes the connection, if there is one.
func (u *upgrading) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		_ = u.conn.Close()
	}
}

// follow takes the end of the reads of SPDY for the end of the client, which may announce it and stay connected.
func (u *upgrading) follow(closed <-chan bool) {
	u.mu.Lock()
	c := u.conn
	u.mu.Unlock()
	go func() {
		<-closed
		c.end()
	}()
}

// probePeriod is how long nothing is read from a connection until the client is probed.
const probePeriod = 30 * time.Second

// probe calls write again and again while nothing is read from the connection, because a stream has data that nobody takes. A
// read would not notice then that the client has gone. After an error of write, the connection is closed. The function that probe
// returns ends the calls.
func (u *upgrading) probe(write func() error) (stop func()) {
	u.mu.Lock()
	c := u.conn
	u.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(probePeriod)
		defer tick.Stop()
		for last := int64(-1); ; last = c.begun.Load() {
			select {
			case <-ended:
				return
			case <-c.gone:
				return
			case <-tick.C:
			}
			if c.ended.Load() == last && c.begun.Load() == last && write() != nil {
				_ = c.Close()
				return
			}
		}
	}()
	return func() { close(ended) }
}

// watched is a connection that reports its end.
type watched struct {
	net.Conn
	from         io.Reader
	begun, ended atomic.Int64 // reads
	once         sync.Once
	gone         chan struct{}
	finished     atomic.Bool // everything is sent
	closed       sync.Once
}

func (c *watched) Read(p []byte) (int, error) {
	c.begun.Add(1)
	n, err := c.from.Read(p)
	c.ended.Add(1)
	if err != nil {
		c.end()
	}
	return n, err
}

// Close closes the connection. It returns no error if it is closed: the library for SPDY would wait for somebody who takes
// the error.
func (c *watched) Close() error {
	c.end()
	c.closed.Do(func() {
		if c.finished.Load() {
			c.drain()
		}
		_ = c.Conn.Close()
	})
	return nil
}

// drainTimeout is how long a client may take to close a connection after the last byte.
const drainTimeout = time.Second

// drain ends the sending half, and reads until the client closes the connection. A socket that is closed with bytes that
// nobody has read is reset, and the client could lose the status of its command.
func (c *watched) drain() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.Conn.SetReadDeadline(time.Now().Add(drainTimeout))
	_, _ = io.Copy(io.Discard, c.Conn)
}

func (c *watched) end() { c.once.Do(func() { close(c.gone) }) }

// created is a stream that a client has created. The library answers the client only after it has called the handler of new
// streams, and a client does not understand what comes before the answer.
type created struct {
	httpstream.Stream
	replied <-chan struct{}
}

// await waits for the answer, or until the client has gone. It reports whether the client was answered. Nobody may write to another
// stream: the library would wait for its answer for ever.
func (c created) await(gone <-chan struct{}, closed <-chan bool) (answered bool) {
	select {
	case <-c.replied:
		answered = c.answer()
	case <-gone:
	}
	select {
	case <-closed:
		c.release()
	default:
	}
	return answered
}

// answer answers the client if the library has failed to. The library does not tell.
func (c created) answer() bool {
	s, ok := c.Stream.(interface {
		SendReply(headers http.Header, fin bool) error
	})
	return !ok || s.SendReply(http.Header{}, false) == nil
}

// releaseTimeout is how long the library may take for the frames that it has read before the end of a connection.
const releaseTimeout = 5 * time.Second

// release receives the result of a stream that could not be answered, because the connection is closed. If the client has reset the
// stream, the library waits for somebody who takes the result.
func (c created) release() {
	if s, ok := c.Stream.(interface{ WaitTimeout(time.Duration) error }); ok {
		go func() { _ = s.WaitTimeout(releaseTimeout) }()
	}
}

// errNoStreams is the error of a client that does not create the streams that it has asked for.
var errNoStreams = errors.New("timed out waiting for client to create streams")
