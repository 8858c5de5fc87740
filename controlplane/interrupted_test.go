package controlplane_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/internal/testlevel"
)

// cutter is a proxy that cuts the connections to a server.
type cutter struct {
	net.Listener
	server   string
	up, down atomic.Int64 // bytes that it has passed on to the server, and to the client
	limit    struct{ up, down int64 }
	reset    bool // the connections are reset

	mu     sync.Mutex
	cuts   []func() // of all connections
	closed bool
}

// Close ends the proxy and its connections.
func (c *cutter) Close() error {
	c.mu.Lock()
	c.closed = true
	cuts := c.cuts
	c.mu.Unlock()
	for _, cut := range cuts {
		cut()
	}
	return c.Listener.Close()
}

// add adds a connection, and reports whether the proxy is open.
func (c *cutter) add(cut func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts = append(c.cuts, cut)
	return !c.closed
}

// newCutter returns a proxy that cuts connections when it has passed on a number of bytes in one direction. Zero is no limit.
func newCutter(t *testing.T, server string, up, down int64, reset bool) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, server: server, reset: reset}
	c.limit.up, c.limit.down = up, down
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(client.(*net.TCPConn))
		}
	}()
	return c
}

// serve passes on the bytes of a connection.
func (c *cutter) serve(client *net.TCPConn) {
	conn, err := net.Dial("tcp", c.server)
	if err != nil {
		_ = client.Close()
		return
	}
	server := conn.(*net.TCPConn)
	cut := sync.OnceFunc(func() {
		for _, conn := range []*net.TCPConn{client, server} {
			if c.reset {
				_ = conn.SetLinger(0)
			}
			_ = conn.Close()
		}
	})
	if !c.add(cut) {
		cut()
		return
	}
	pass := func(to, from *net.TCPConn, n *atomic.Int64, limit int64) {
		defer cut()
		part := make([]byte, 4<<10)
		for {
			size, err := from.Read(part)
			if limit > 0 {
				size = int(min(int64(size), max(0, limit-n.Load())))
			}
			if _, err := to.Write(part[:size]); err != nil {
				return
			}
			if total := n.Add(int64(size)); err != nil || limit > 0 && total >= limit {
				return
			}
		}
	}
	go pass(server, client, &c.up, c.limit.up)
	pass(client, server, &c.down, c.limit.down)
}

// streams are the uses of streams. Each ends by itself, or when its connection is cut.
var streams = map[string]func(ctx context.Context, t *testing.T, cfg *rest.Config, client kubernetes.Interface){
	"exec": func(ctx context.Context, _ *testing.T, cfg *rest.Config, client kubernetes.Interface) {
		execute(ctx, cfg, client, "WebSocket")
	},
	"exec SPDY": func(ctx context.Context, _ *testing.T, cfg *rest.Config, client kubernetes.Interface) {
		execute(ctx, cfg, client, "SPDY")
	},
	"attach": func(ctx context.Context, _ *testing.T, cfg *rest.Config, client kubernetes.Interface) {
		attach(ctx, cfg, client, "WebSocket")
	},
	"attach SPDY": func(ctx context.Context, _ *testing.T, cfg *rest.Config, client kubernetes.Interface) {
		attach(ctx, cfg, client, "SPDY")
	},
	"logs": follow,
	"forward": func(ctx context.Context, t *testing.T, cfg *rest.Config, client kubernetes.Interface) {
		forwardPort(ctx, t, cfg, client, true)
	},
	"forward SPDY": func(ctx context.Context, t *testing.T, cfg *rest.Config, client kubernetes.Interface) {
		forwardPort(ctx, t, cfg, client, false)
	},
}

// execute executes cat with a large input.
func execute(ctx context.Context, cfg *rest.Config, client kubernetes.Interface, protocol string) {
	_, _, _ = run(ctx, client, httpsExecutors(cfg)[protocol], "echo", strings.Repeat("x", 100_000), false, "cat")
}

// ending is a writer that ends a context with the first output.
type ending struct{ end context.CancelFunc }

func (e ending) Write(p []byte) (int, error) {
	e.end()
	return len(p), nil
}

// attach types a line for the main process, and waits for the answer.
func attach(ctx context.Context, cfg *rest.Config, client kubernetes.Interface, protocol string) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	at := connectionURL(client, "echo", "attach")
	at.RawQuery = url.Values{"stdin": {"true"}, "stdout": {"true"}, "container": {"c"}}.Encode()
	e, err := httpsExecutors(cfg)[protocol](at)
	if err != nil {
		return
	}
	stdin, typed := io.Pipe()
	defer typed.Close()
	go func() { _, _ = io.WriteString(typed, "typed\n") }()
	_ = e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: ending{end}})
}

// follow reads the first line of a log.
func follow(ctx context.Context, _ *testing.T, _ *rest.Config, client kubernetes.Interface) {
	log, err := client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return
	}
	defer log.Close()
	_, _ = io.ReadFull(log, make([]byte, len("started\n")))
}

// forwardPort sends data to a forwarded port, and reads them from it.
func forwardPort(ctx context.Context, t *testing.T, cfg *rest.Config, client kubernetes.Interface, webSocket bool) {
	dialer, err := dialerFor(cfg, connectionURL(client, "echo", "portforward"), webSocket)
	if err != nil {
		t.Error(err)
		return
	}
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewForStreaming(dialer, []string{"0:7"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Error(err)
		return
	}
	go func() { defer close(ended); _ = forwarder.ForwardPorts() }()
	defer func() { <-ended }()
	defer close(stop)
	select {
	case <-ready:
	case <-ended:
		return
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		return
	}
	defer conn.Close()
	end := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer end()
	text := strings.Repeat("x", 100_000)
	go func() { _, _ = io.WriteString(conn, text) }()
	_, _ = io.ReadFull(conn, make([]byte, len(text)))
}

// The times that a client takes at most, without and with a cut.
const (
	wholeTimeout = 5 * time.Minute
	cutTimeout   = 2 * time.Second
)

// waitsForStream is a function of client-go that waits half a minute for the answer to a stream, also if the connection is gone.
const waitsForStream = "k8s.io/streaming/pkg/httpstream/spdy.(*connection).CreateStream"

// stages is how many times each stream is cut in each direction.
const stages = 3

// TestCutStreams cuts the connections of streams over HTTPS at several numbers of bytes, from the handshake to the end. No goroutine
// is left, of the server or of the client.
func TestCutStreams(t *testing.T) {
	testlevel.NeedsFull(t, "waits a minute for time limits of clients")
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0"})
	base := controlplanetest.FromKubeconfig(t, plane)
	admin := controlplanetest.ClientFor(t, plane.Config())
	createRunning(t, admin, sleeper("web"))
	pod := sleeper("echo")
	pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Stdin = []string{"cat"}, true
	createRunning(t, admin, pod)
	echo(t, plane, 7)
	server := strings.TrimPrefix(base.Host, "https://")
	use := func(name string, timeout time.Duration, up, down int64, reset bool) *cutter {
		c := newCutter(t, server, up, down, reset)
		defer c.Close()
		cfg := rest.CopyConfig(base)
		cfg.Host = "https://" + c.Addr().String()
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		streams[name](ctx, t, cfg, client)
		controlplanetest.CloseIdle(t, cfg)
		return c
	}
	for name := range streams {
		use(name, wholeTimeout, 0, 0, false)
	}
	existing := goleak.IgnoreCurrent()
	for name := range streams {
		whole := use(name, wholeTimeout, 0, 0, false)
		for i := range int64(stages) {
			for _, at := range []struct{ up, down int64 }{{whole.up.Load() * (2*i + 1) / (2 * stages), 0}, {0, whole.down.Load() * (2*i + 1) / (2 * stages)}} {
				c := use(name, cutTimeout, at.up, at.down, i%2 == 0)
				what := fmt.Sprintf("%s, cut after %d bytes to the server and %d to the client", name, c.up.Load(), c.down.Load())
				if left := remaining(5*time.Minute, existing, goleak.IgnoreAnyFunction(waitsForStream)); left != nil {
					t.Fatalf("%s: %v", what, left)
				}
			}
		}
	}
	if left := remaining(5*time.Minute, existing); left != nil {
		t.Error(left)
	}
}

// remaining returns the goroutines that remain after a time, as an error.
func remaining(timeout time.Duration, options ...goleak.Option) (err error) {
	for deadline := time.Now().Add(timeout); ; {
		if err = goleak.Find(options...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
