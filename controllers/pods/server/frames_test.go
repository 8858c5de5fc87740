package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"flyball.dev/controllers/pods/inputs"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controllers/pods/sandbox"
	"flyball.dev/controllers/pods/server"
	"flyball.dev/controllers/pods/shell"
)

// upgrades are the requests that change to other protocols.
var upgrades = []struct{ path, upgrade, protocol string }{
	{"/exec/default/web/c?command=cat&input=1&output=1&error=1", "websocket", "v5.channel.k8s.io"},
	{"/exec/default/web/c?command=cat&input=1&output=1&error=1", "websocket", "v4.channel.k8s.io"},
	{"/exec/default/web/c?command=cat&input=1&output=1&error=1", "websocket", "v4.base64.channel.k8s.io"},
	{"/exec/default/web/c?command=cat&input=1&output=1&error=1", "websocket", "base64.channel.k8s.io"},
	{"/exec/default/web/c?command=cat&input=1&output=1&error=1", "websocket", ""},
	{"/exec/default/web/c?command=sh&input=1&output=1&tty=1", "websocket", "v5.channel.k8s.io"},
	{"/exec/default/web/c?command=sleep&command=1d&input=1&output=1&tty=1", "websocket", "v5.channel.k8s.io"},
	{"/attach/default/web/c?input=1&output=1&error=1", "websocket", "v4.channel.k8s.io"},
	{"/portForward/default/web?port=7&port=8&port=9", "websocket", "v4.channel.k8s.io"},
	{"/exec/default/web/c?command=cat&input=1&output=1&error=1", "SPDY/3.1", "v4.channel.k8s.io"},
	{"/exec/default/web/c?command=cat&input=1&output=1&error=1", "SPDY/3.1", "v2.channel.k8s.io"},
	{"/exec/default/web/c?command=cat&input=1&output=1&error=1", "SPDY/3.1", "channel.k8s.io"},
	{"/exec/default/web/c?command=sh&input=1&output=1&tty=1", "SPDY/3.1", "v4.channel.k8s.io"},
	{"/exec/default/web/c?command=sleep&command=1d&input=1&output=1", "SPDY/3.1", "v4.channel.k8s.io"},
	{"/attach/default/web/c?input=1&output=1&error=1", "SPDY/3.1", "v4.channel.k8s.io"},
	{"/portForward/default/web", "SPDY/3.1", "portforward.k8s.io"},
}

// noInputs is the reader of a namespace without objects.
type noInputs struct{ inputs.Reader }

func (noInputs) Services() ([]corev1.Service, error) { return nil, nil }

// newKubelet returns a server for a pod with a container that echoes, in a bubble. Port 7 of the pod echoes, too, port 8 refuses
// connections, and port 9 does not read. The function that it returns ends the pod.
func newKubelet(t *testing.T) (s *server.Server, handlers *runtime.Handlers, end func()) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "busybox", Command: []string{"cat"}, Stdin: true}}}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{{
		Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, ContainerID: sandbox.ID(pod, "c", 0)}}}
	handlers = &runtime.Handlers{}
	boxes := sandbox.New(sandbox.Options{Handlers: handlers, Shell: shell.New(shell.Options{}),
		Pod:     func(context.Context, runtime.PodRef) (*corev1.Pod, error) { return pod, nil },
		Reader:  func(context.Context, *corev1.Pod) inputs.Reader { return noInputs{} },
		Changed: func(types.NamespacedName) {},
		Record:  func(*corev1.Pod, *corev1.Container, string, string, string) {},
	})
	if err := boxes.Start(t.Context(), pod, &pod.Spec.Containers[0], 0); err != nil {
		t.Fatal(err)
	}
	var listeners []net.Listener
	for port, serve := range map[int32]func(net.Conn){
		7: func(c net.Conn) { _, _ = io.Copy(c, c); _ = c.Close() },
		9: func(net.Conn) {},
	} {
		l, err := handlers.Listen(runtime.Selector{}, port)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go serve(c)
			}
		}()
	}
	return server.New(server.Options{Runtime: boxes, Pod: func(context.Context, string, string) (*corev1.Pod, error) { return pod, nil }}), handlers, func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		if err := boxes.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// hijacked is the response to a request on a connection in memory.
type hijacked struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

// Hijack implements [http.Hijacker].
func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// connect serves a request that upgrades its connection, and returns the client's end of the connection. done is closed when the
// request has been served.
func connect(ctx context.Context, s http.Handler, path, upgrade, protocol string) (conn net.Conn, done <-chan struct{}) {
	conn, end := net.Pipe()
	return conn, serveOn(ctx, s, end, path, upgrade, protocol)
}

// serveOn serves a request that upgrades a connection, and closes done then.
func serveOn(ctx context.Context, s http.Handler, end net.Conn, path, upgrade, protocol string) (done <-chan struct{}) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", upgrade)
	if upgrade == "websocket" {
		r.Method = http.MethodGet
		r.Header.Set("Sec-WebSocket-Version", "13")
		r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		if protocol != "" {
			r.Header.Set("Sec-WebSocket-Protocol", protocol)
		}
	} else {
		r.Header.Set("X-Stream-Protocol-Version", protocol)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer end.Close()
		s.ServeHTTP(hijacked{httptest.NewRecorder(), end}, r)
	}()
	return served
}

// goes closes the connection of a client, and checks that the server notices.
func goes(t *testing.T, what string, conn net.Conn, done <-chan struct{}, cancel context.CancelFunc) {
	t.Helper()
	_ = conn.Close()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Errorf("%s: the server serves a client that has gone", what)
		cancel()
		<-done
	}
}

// frame returns a frame of a WebSocket's client with a message.
func frame(first byte, message []byte) []byte {
	f := []byte{first}
	switch n := len(message); {
	case n < 126:
		f = append(f, 0x80|byte(n))
	case n < 1<<16:
		f = binary.BigEndian.AppendUint16(append(f, 0x80|126), uint16(n))
	default:
		f = binary.BigEndian.AppendUint64(append(f, 0x80|127), uint64(n))
	}
	return append(append(f, 0, 0, 0, 0), message...) // the mask
}

// binaryMessage is the first byte of a frame with a whole message.
const binaryMessage = 0x82

// recorder is a connection that keeps the written bytes.
type recorder struct {
	net.Conn
	mu      sync.Mutex
	written bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.written.Write(p)
	r.mu.Unlock()
	return r.Conn.Write(p)
}

// seedsOfSPDY returns what a client sends that creates streams, and writes to one of them.
func seedsOfSPDY(f testing.TB) (seeds [][]byte) {
	for _, streams := range [][]http.Header{
		{{"Streamtype": {"error"}}, {"Streamtype": {"stdin"}}, {"Streamtype": {"stdout"}}, {"Streamtype": {"stderr"}}},
		{{"Streamtype": {"error"}}, {"Streamtype": {"stdin"}}, {"Streamtype": {"stdout"}}, {"Streamtype": {"resize"}}},
		{{"Streamtype": {"error"}, "Port": {"7"}, "Requestid": {"0"}}, {"Streamtype": {"data"}, "Port": {"7"}, "Requestid": {"0"}}},
		{{"Streamtype": {"error"}, "Port": {"9"}}, {"Streamtype": {"data"}, "Port": {"9"}}},
		{{"Streamtype": {"x"}, "Port": {"0"}}},
	} {
		near, far := net.Pipe()
		conn := &recorder{Conn: near}
		client, err := spdy.NewClientConnection(conn)
		if err != nil {
			f.Fatal(err)
		}
		peer, err := spdy.NewServerConnection(far, func(s httpstream.Stream, _ <-chan struct{}) error {
			go func() { _, _ = io.Copy(io.Discard, s) }()
			return nil
		})
		if err != nil {
			f.Fatal(err)
		}
		for i, h := range streams {
			s, err := client.CreateStream(h)
			if err != nil {
				f.Fatal(err)
			}
			_, _ = s.Write([]byte(`{"Width":80,"Height":24}`))
			if i == 1 {
				_ = s.Close()
			}
		}
		_ = client.Close()
		_ = peer.Close()
		conn.mu.Lock()
		seeds = append(seeds, bytes.Clone(conn.written.Bytes()))
		conn.mu.Unlock()
	}
	return seeds
}

// deaf is a connection to a client that takes nothing after the upgrade, but sends.
type deaf struct {
	net.Conn
	upgraded atomic.Bool
}

func (d *deaf) Write(p []byte) (int, error) {
	if d.upgraded.Load() {
		return 0, errors.New("broken pipe")
	}
	return d.Conn.Write(p)
}

// TestUnansweredStreams creates streams that the server cannot answer.
func TestUnansweredStreams(t *testing.T) {
	seeds := seedsOfSPDY(t)
	for path, seed := range map[string][]byte{"/exec/default/web/c?command=cat&input=1&output=1&error=1": seeds[0], "/portForward/default/web": seeds[2]} {
		synctest.Test(t, func(t *testing.T) {
			s, _, end := newKubelet(t)
			defer end()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			conn, far := net.Pipe()
			to := &deaf{Conn: far}
			protocol := map[bool]string{true: "portforward.k8s.io", false: "v4.channel.k8s.io"}[strings.HasPrefix(path, "/portForward")]
			done := serveOn(ctx, s, to, path, "SPDY/3.1", protocol)
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			synctest.Wait()
			to.upgraded.Store(true)
			go func() { _, _ = conn.Write(seed) }()
			synctest.Wait()
			goes(t, path, conn, done, cancel)
			time.Sleep(10 * time.Second) // until the server gives up frames that the library has read
		})
	}
}

// FuzzFrames sends bytes after an upgrade, in two parts, and goes. Whatever they are, the server ends the connection, and leaves no
// goroutine, which the bubble would find.
func FuzzFrames(f *testing.F) {
	var webSocket []byte
	for _, message := range []string{"\x00typed\n", "\x04{\"Width\":80,\"Height\":24}", "\x04{\"Width\":81}{\"Width\":82}", "\x04no size", "\x04more",
		"\x01x", "\x03x", "\x07x", "0dHlwZWQ=", "0no base64", "", "\xff\x00", "\xff\x09", "\xff"} {
		webSocket = append(webSocket, frame(binaryMessage, []byte(message))...)
	}
	large := frame(binaryMessage, make([]byte, 70<<10))
	seeds := append(seedsOfSPDY(f), nil, webSocket, webSocket[:len(webSocket)/2], large, frame(0x89, nil), frame(0x88, nil), frame(0x02, []byte("\x00a")),
		[]byte("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00"), // a frame of 2^64-1 bytes
		[]byte("\x80\x03\x00\x01\x00\xff\xff\xff"),                         // a stream with a header of 16 MiB
		[]byte("\x80\x03\x00\x04\x00\x00\x00\x0c\xff\xff\xff\xff\x00\x00\x00\x04"),
		[]byte("\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x02"), []byte("\x80\x03\x00\x07\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00"),
		[]byte("GET / HTTP/1.1\r\n\r\n"))
	for i := range upgrades {
		for _, seed := range seeds {
			f.Add(uint8(i), uint16(len(seed)/3), seed)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, cut uint16, data []byte) {
		u := upgrades[int(kind)%len(upgrades)]
		synctest.Test(t, func(t *testing.T) {
			s, _, end := newKubelet(t)
			defer end()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			conn, done := connect(ctx, s, u.path, u.upgrade, u.protocol)
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			go func() {
				first := min(int(cut), len(data))
				_, _ = conn.Write(data[:first])
				time.Sleep(time.Second)
				_, _ = conn.Write(data[first:])
			}()
			time.Sleep(10 * time.Second)
			goes(t, u.path+" over "+u.upgrade+" "+u.protocol, conn, done, cancel)
		})
	})
}

// FuzzInput sends a standard input in parts over each version of the protocols that can end it, and reads it from the standard output.
func FuzzInput(f *testing.F) {
	for i := range uint8(3) {
		f.Add(i, uint16(5), []byte("typed\n\x00\xff more"))
		f.Add(i, uint16(60000), bytes.Repeat([]byte("0123456789"), 20000))
		f.Add(i, uint16(1), []byte{})
	}
	f.Fuzz(func(t *testing.T, kind uint8, size uint16, stdin []byte) {
		parts := bytes.SplitAfter(stdin, nil)[:0]
		for part := int(size)%len(append(stdin, 0)) + 1; len(stdin) > 0; stdin = stdin[min(part, len(stdin)):] {
			parts = append(parts, stdin[:min(part, len(stdin))])
		}
		if len(parts) > 1000 {
			t.Skip("too many parts")
		}
		stdin = bytes.Join(parts, nil)
		synctest.Test(t, func(t *testing.T) {
			s, _, end := newKubelet(t)
			defer end()
			const path = "/exec/default/web/c?command=cat&input=1&output=1"
			var out, status []byte
			if kind%3 == 0 {
				conn, done := connect(t.Context(), s, path, "websocket", "v5.channel.k8s.io")
				go func() {
					for _, part := range parts {
						_, _ = conn.Write(frame(binaryMessage, append([]byte{0}, part...)))
					}
					_, _ = conn.Write(frame(binaryMessage, []byte{255, 0})) // the end of standard input
				}()
				out, status = channels(t, conn)
				_ = conn.Close()
				<-done
			} else {
				conn, done := connect(t.Context(), s, path, "SPDY/3.1", []string{"", "v4.channel.k8s.io", "v3.channel.k8s.io"}[kind%3])
				out, status = overSPDY(t, conn, parts)
				<-done
			}
			if want := `"status":"Success"`; !bytes.Equal(out, stdin) || kind%3 < 2 && !strings.Contains(string(status), want) {
				t.Errorf("cat of %d bytes in %d parts has %d bytes of output, and the status %s", len(stdin), len(parts), len(out), status)
			}
		})
	})
}

// channels reads the messages for standard output and for errors from a WebSocket until it ends.
func channels(t *testing.T, conn io.Reader) (out, status []byte) {
	r := bufio.NewReader(conn)
	if _, err := http.ReadResponse(r, nil); err != nil {
		t.Error(err)
		return nil, nil
	}
	for {
		head := make([]byte, 2)
		if _, err := io.ReadFull(r, head); err != nil || head[0]&0x0f == 8 {
			return out, status
		}
		size := uint64(head[1])
		if more := map[byte]int{126: 2, 127: 8}[head[1]]; more > 0 {
			long := make([]byte, 8)
			_, _ = io.ReadFull(r, long[8-more:])
			size = binary.BigEndian.Uint64(long)
		}
		message := make([]byte, size)
		if _, err := io.ReadFull(r, message); err != nil {
			t.Error(err)
			return out, status
		}
		switch message[0] {
		case 1:
			out = append(out, message[1:]...)
		case 3:
			status = append(status, message[1:]...)
		}
	}
}

// overSPDY executes a command with client-go's library, and returns its output and its status.
func overSPDY(t *testing.T, conn net.Conn, parts [][]byte) (out, status []byte) {
	client, err := spdy.NewClientConnection(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	streams := map[string]httpstream.Stream{}
	for _, kind := range []string{"error", "stdin", "stdout"} {
		if streams[kind], err = client.CreateStream(http.Header{"Streamtype": {kind}}); err != nil {
			t.Error(err)
			return nil, nil
		}
	}
	go func() {
		for _, part := range parts {
			_, _ = streams["stdin"].Write(part)
		}
		_ = streams["stdin"].Close()
	}()
	done := make(chan struct{})
	go func() { defer close(done); status, _ = io.ReadAll(streams["error"]) }()
	out, _ = io.ReadAll(streams["stdout"])
	<-done
	return out, status
}

// TestSizesThatNobodyTakes: a command that takes no sizes of its terminal, or a size that is none, keeps nothing from the command.
func TestSizesThatNobodyTakes(t *testing.T) {
	for _, size := range []string{`{"Width":80,"Height":24}`, "no size", `"` + strings.Repeat("x", 2000)} {
		synctest.Test(t, func(t *testing.T) {
			s, handlers, end := newKubelet(t)
			defer end()
			typed := make(chan string, 1)
			if _, err := handlers.HandleExec(runtime.Selector{Command: "ask"}, func(_ context.Context, p *runtime.Process) int {
				answer := make([]byte, 3)
				_, _ = io.ReadFull(p.Stdin, answer)
				typed <- string(answer)
				return 0
			}); err != nil {
				t.Fatal(err)
			}
			conn, done := connect(t.Context(), s, "/exec/default/web/c?command=ask&input=1&output=1&tty=1", "websocket", "v5.channel.k8s.io")
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			go func() {
				for range 5 {
					_, _ = conn.Write(frame(binaryMessage, []byte("\x04"+size)))
				}
				_, _ = conn.Write(frame(binaryMessage, []byte("\x00yes")))
			}()
			select {
			case answer := <-typed:
				if answer != "yes" {
					t.Errorf("after %.20s, %q is typed", size, answer)
				}
			case <-time.After(time.Minute):
				t.Errorf("after %.20s, nothing is typed", size)
			}
			_ = conn.Close()
			<-done
		})
	}
}

// TestUnreadInput: a client goes while the process, or the port, reads nothing of what it has sent.
func TestUnreadInput(t *testing.T) {
	const exec, forward = "/exec/default/web/c?command=wait&input=1&output=1", "/portForward/default/web?port=9"
	part := make([]byte, 30<<10)
	overWebSocket := func(_ *testing.T, conn net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		for range 100 {
			_, _ = conn.Write(frame(binaryMessage, append([]byte{0}, part...)))
		}
	}
	overSPDY := func(streams ...http.Header) func(t *testing.T, conn net.Conn) {
		return func(t *testing.T, conn net.Conn) {
			client, err := spdy.NewClientConnection(conn)
			if err != nil {
				t.Error(err)
				return
			}
			var last httpstream.Stream
			for _, h := range streams {
				if last, err = client.CreateStream(h); err != nil {
					t.Error(err)
					return
				}
			}
			for range 100 {
				_, _ = last.Write(part)
			}
		}
	}
	for _, tc := range []struct {
		path, upgrade, protocol string
		send                    func(t *testing.T, conn net.Conn)
	}{
		{exec, "websocket", "v5.channel.k8s.io", overWebSocket},
		{exec, "SPDY/3.1", "v4.channel.k8s.io", overSPDY(http.Header{"Streamtype": {"error"}}, http.Header{"Streamtype": {"stdout"}}, http.Header{"Streamtype": {"stdin"}})},
		{forward, "websocket", "v4.channel.k8s.io", overWebSocket},
		{forward, "SPDY/3.1", "portforward.k8s.io", overSPDY(http.Header{"Streamtype": {"error"}, "Port": {"9"}}, http.Header{"Streamtype": {"data"}, "Port": {"9"}})},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, handlers, end := newKubelet(t)
			defer end()
			if _, err := handlers.HandleExec(runtime.Selector{Command: "wait"}, func(ctx context.Context, _ *runtime.Process) int {
				<-ctx.Done()
				return 1
			}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			conn, done := connect(ctx, s, tc.path, tc.upgrade, tc.protocol)
			sent := make(chan struct{})
			go func() { defer close(sent); tc.send(t, conn) }()
			time.Sleep(time.Hour)
			select {
			case <-sent:
				t.Errorf("%s over %s: everything was read", tc.path, tc.upgrade)
			case <-done:
				t.Errorf("%s over %s: the server does not wait for the process", tc.path, tc.upgrade)
			default:
			}
			goes(t, tc.path+" over "+tc.upgrade, conn, done, cancel)
		})
	}
}
