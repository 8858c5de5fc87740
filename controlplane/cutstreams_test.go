package controlplane_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/proxy"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/internal/testlevel"
)

// wire connects clients to a control plane in the process, and is cut when it has passed on a number of bytes in one direction.
type wire struct {
	plane    *controlplane.ControlPlane
	number   string
	up, down atomic.Int64 // the bytes that it has passed on
	limit    struct{ up, down int64 }
	turn     chan struct{} // full while a client creates a stream, or a read ends the connection
	ended    bool          // has the turn
}

// wireScheme is the scheme of the proxy by which client-go's WebSockets take a wire. The host is its number.
const wireScheme = "flyball-wire"

var (
	wires    sync.Map // of *wire, by the number
	lastWire atomic.Int64
)

func init() {
	proxy.RegisterDialerType(wireScheme, func(u *url.URL, _ proxy.Dialer) (proxy.Dialer, error) {
		w, ok := wires.Load(u.Host)
		if !ok {
			return nil, net.ErrClosed
		}
		return wireDialer{w.(*wire)}, nil
	})
}

// newWire returns a wire. Zero is no limit.
func newWire(t *testing.T, plane *controlplane.ControlPlane, up, down int64) *wire {
	w := &wire{plane: plane, number: fmt.Sprint(lastWire.Add(1)), turn: make(chan struct{}, 1)}
	w.limit.up, w.limit.down = up, down
	wires.Store(w.number, w)
	t.Cleanup(func() { wires.Delete(w.number) })
	return w
}

// DialContext has the signature of a dialer.
func (w *wire) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := w.plane.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &wireConn{conn, w}, nil
}

type wireDialer struct{ *wire }

func (d wireDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// config returns a configuration of client-go, for requests and WebSockets.
func (w *wire) config() *rest.Config {
	return &rest.Config{Host: "http://flyball.local", QPS: -1,
		Transport: &http.Transport{DialContext: w.DialContext, DisableKeepAlives: true},
		Proxy:     func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: wireScheme, Host: w.number}, nil }}
}

// spdy returns client-go's transport for SPDY.
func (w *wire) spdy() (*spdy.SpdyRoundTripper, error) {
	return spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{PingPeriod: 5 * time.Second, UpgradeTransport: &http.Transport{DialContext: w.DialContext}})
}

// executor returns a way to execute a command.
func (w *wire) executor(webSocket bool) func(u *url.URL) (remotecommand.Executor, error) {
	return func(u *url.URL) (remotecommand.Executor, error) {
		if webSocket {
			return remotecommand.NewWebSocketExecutor(w.config(), "GET", u.String())
		}
		rt, err := w.spdy()
		if err != nil {
			return nil, err
		}
		return remotecommand.NewSPDYExecutorForTransports(rt, clientspdy.NewUpgraderForStreaming(wireUpgrader{rt, w}), "POST", u)
	}
}

// dialer returns a way to forward a port.
func (w *wire) dialer(u *url.URL, webSocket bool) (httpstream.Dialer, error) {
	if webSocket {
		return portforward.NewSPDYOverWebsocketDialerForStreaming(u, w.config())
	}
	rt, err := w.spdy()
	if err != nil {
		return nil, err
	}
	return clientspdy.NewDialerForStreaming(clientspdy.NewUpgraderForStreaming(rt), &http.Client{Transport: rt}, http.MethodPost, u), nil
}

// wireUpgrader makes client-go's connections for SPDY.
type wireUpgrader struct {
	httpstream.UpgradeRoundTripper
	wire *wire
}

func (u wireUpgrader) NewConnection(response *http.Response) (httpstream.Connection, error) {
	conn, err := u.UpgradeRoundTripper.NewConnection(response)
	return streamCreator{conn, u.wire}, err
}

// streamCreator is client-go's connection for SPDY, which creates no stream after the end of the wire. spdystream forgets its streams when
// a read fails. A client's stream that comes later stays, and the goroutine of (*spdystream.Connection).shutdown waits for it without a time
// limit. A server creates no streams, so its goroutines end.
type streamCreator struct {
	httpstream.Connection
	wire *wire
}

func (c streamCreator) CreateStream(header http.Header) (httpstream.Stream, error) {
	c.wire.turn <- struct{}{}
	defer func() { <-c.wire.turn }()
	if c.wire.ended {
		return nil, io.ErrClosedPipe
	}
	return c.Connection.CreateStream(header)
}

// wireConn is a connection over a wire.
type wireConn struct {
	net.Conn
	wire *wire
}

// Read has no error while a client creates a stream.
func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.pass(p, &c.wire.down, c.wire.limit.down, c.Conn.Read)
	if err != nil {
		c.wire.turn <- struct{}{}
		c.wire.ended = true
		<-c.wire.turn
	}
	return n, err
}

func (c *wireConn) Write(p []byte) (int, error) {
	n, err := c.pass(p, &c.wire.up, c.wire.limit.up, c.Conn.Write)
	if err == nil && n < len(p) {
		err = io.ErrClosedPipe
	}
	return n, err
}

// SetReadDeadline has no error after a cut, since the client has not closed its end. With an error, client-go would leave its streams open.
func (c *wireConn) SetReadDeadline(t time.Time) error {
	_ = c.Conn.SetReadDeadline(t)
	return nil
}

// pass passes on bytes up to the limit of their direction, and cuts the connection there.
func (c *wireConn) pass(p []byte, passed *atomic.Int64, limit int64, move func([]byte) (int, error)) (int, error) {
	if limit > 0 {
		p = p[:min(int64(len(p)), max(0, limit-passed.Load()))]
		if len(p) == 0 {
			return 0, io.ErrClosedPipe
		}
	}
	n, err := move(p)
	if passed.Add(int64(n)) >= limit && limit > 0 {
		_ = c.Conn.Close()
	}
	return n, err
}

// wired are the uses of streams over a wire. Each ends by itself, or when the wire is cut.
var wired = map[string]func(ctx context.Context, w *wire, client kubernetes.Interface){
	"exec by WebSocket":    func(ctx context.Context, w *wire, client kubernetes.Interface) { w.execute(ctx, client, true) },
	"exec by SPDY":         func(ctx context.Context, w *wire, client kubernetes.Interface) { w.execute(ctx, client, false) },
	"attach by WebSocket":  func(ctx context.Context, w *wire, client kubernetes.Interface) { w.attach(ctx, client, true) },
	"attach by SPDY":       func(ctx context.Context, w *wire, client kubernetes.Interface) { w.attach(ctx, client, false) },
	"forward by WebSocket": func(ctx context.Context, w *wire, client kubernetes.Interface) { w.forward(ctx, client, true) },
	"forward by SPDY":      func(ctx context.Context, w *wire, client kubernetes.Interface) { w.forward(ctx, client, false) },
	"logs":                 func(ctx context.Context, w *wire, client kubernetes.Interface) { w.follow(ctx, client) },
}

// execute executes cat with a large input.
func (w *wire) execute(ctx context.Context, client kubernetes.Interface, webSocket bool) {
	_, _, _ = run(ctx, client, w.executor(webSocket), "echo", strings.Repeat("x", 100_000), false, "cat")
}

// attach types a line for the main process, and waits for the answer.
func (w *wire) attach(ctx context.Context, client kubernetes.Interface, webSocket bool) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	at := connectionURL(client, "echo", "attach")
	at.RawQuery = url.Values{"stdin": {"true"}, "stdout": {"true"}, "container": {"c"}}.Encode()
	e, err := w.executor(webSocket)(at)
	if err != nil {
		return
	}
	stdin, typed := io.Pipe()
	defer typed.Close()
	go func() { _, _ = io.WriteString(typed, "typed\n") }()
	_ = e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: ending{end}})
}

// forward sends data to a port, and reads them from it.
func (w *wire) forward(ctx context.Context, client kubernetes.Interface, webSocket bool) {
	dialer, err := w.dialer(connectionURL(client, "echo", "portforward"), webSocket)
	if err != nil {
		return
	}
	dialed, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return
	}
	conn := streamCreator{dialed, w}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	header := http.Header{"Streamtype": {"error"}, "Port": {"7"}, "Requestid": {"1"}}
	if _, err := conn.CreateStream(header); err != nil {
		return
	}
	header.Set("streamType", "data")
	data, err := conn.CreateStream(header)
	if err != nil {
		return
	}
	text := strings.Repeat("x", 100_000)
	written := make(chan struct{})
	go func() { defer close(written); _, _ = io.WriteString(data, text) }()
	_, _ = io.ReadFull(data, make([]byte, len(text)))
	_ = conn.Close()
	<-written
}

// follow reads the first line of a log.
func (w *wire) follow(ctx context.Context, _ kubernetes.Interface) {
	client, err := kubernetes.NewForConfig(w.config())
	if err != nil {
		return
	}
	log, err := client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return
	}
	defer log.Close()
	_, _ = io.ReadFull(log, make([]byte, len("started\n")))
}

// TestStreamsCutAtRandom cuts streams at random bytes. No goroutine is left of each, in the server or the client, and the control plane
// serves the next.
func TestStreamsCutAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, client, sleeper("web"))
		pod := sleeper("echo")
		pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Stdin = []string{"cat"}, true
		createRunning(t, client, pod)
		echo(t, plane, 7)
		use := func(name string, up, down int64) *wire {
			w := newWire(t, plane, up, down)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			wired[name](ctx, w, client)
			return w
		}
		names := slices.Sorted(maps.Keys(wired))
		whole := map[string]*wire{}
		for _, name := range names {
			whole[name] = use(name, 0, 0)
		}
		time.Sleep(2 * time.Minute) // virtual: client-go's heartbeats and time limits end
		synctest.Wait()
		existing := goleak.IgnoreCurrent()
		for seed := range uint64(testlevel.Rounds(21, 210)) {
			random := rand.New(rand.NewPCG(seed, 7))
			name := names[int(seed)%len(names)]
			up, down := random.Int64N(whole[name].up.Load())+1, int64(0)
			if random.IntN(2) == 0 {
				up, down = 0, random.Int64N(whole[name].down.Load())+1
			}
			what := fmt.Sprintf("seed %d, %s, cut after %d bytes to the server or %d to the client", seed, name, up, down)
			use(name, up, down)
			if out, _, err := run(t.Context(), client, inProcessExecutors(plane)["WebSocket"], "web", "", false, "echo", what); err != nil || out != what+"\n" {
				t.Errorf("%s: the next command has the output %q, %v", what, out, err)
			}
			time.Sleep(2 * time.Minute) // virtual
			synctest.Wait()
			if err := goleak.Find(existing); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	})
}
