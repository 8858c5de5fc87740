package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	constants "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"flyball.dev/controllers/pods/runtime"
)

// The headers and values of the streams of a command.
const (
	streamType   = "streamType"
	streamError  = "error"
	streamResize = "resize"
)

// streamOptions are the streams that a client asks for.
type streamOptions struct{ stdin, stdout, stderr, tty bool }

// streamOptionsOf returns the streams of a request.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/remotecommand.NewOptions
func streamOptionsOf(r *http.Request) (o streamOptions, err error) {
	q := r.URL.Query()
	is := func(name string) bool { return q.Get(name) == "1" || q.Get(name) == "true" }
	o = streamOptions{stdin: is("input"), stdout: is("output"), stderr: is("error"), tty: is("tty")}
	o.stderr = o.stderr && !o.tty
	if !o.stdin && !o.stdout && !o.stderr {
		return o, fmt.Errorf("you must specify at least 1 of stdin, stdout, stderr")
	}
	return o, nil
}

// session is the connection of a client to a process.
type session struct {
	runtime.Streams
	u *upgrading
	// status reports the end of the process to the client.
	status func(*metav1.Status)
	first  io.Writer // sends messages to the client, which may be empty
	close  func()
	silent func() // ends the probes of the client

	ahead      *input         // nil without standard input
	goroutines sync.WaitGroup // that read from the client
}

// open upgrades a request to a session. If that fails, it answers the request, and ok is false.
func open(w http.ResponseWriter, r *http.Request, o streamOptions) (s *session, ok bool) {
	s = &session{u: newUpgrading(w)}
	s.TTY = o.tty
	var sizes io.Reader
	if wsstream.IsWebSocketRequest(r) {
		sizes, ok = s.openWebSocket(r, o)
	} else {
		sizes, ok = s.openSPDY(r, o)
	}
	if !ok {
		s.u.close()
		return nil, false
	}
	if stdin := s.Stdin; stdin != nil {
		s.ahead = newInput()
		s.Stdin = s.ahead
		s.goroutines.Go(func() { s.ahead.fill(stdin) })
	}
	if o.tty && sizes != nil {
		s.takeSizes(sizes)
	}
	s.silent = s.u.probe(func() error {
		_, err := s.first.Write(nil)
		return err
	})
	return s, true
}

// end closes the connection, and waits for the goroutines that read from the client.
func (s *session) end() {
	s.silent()
	s.close()
	s.u.close()
	if s.ahead != nil {
		s.ahead.close()
	}
	s.goroutines.Wait()
}

// maxSize bounds the text of a size.
const maxSize = 1 << 10

// takeSizes passes the latest size of the client's terminal on. The connection waits for the reader of each stream, so takeSizes
// reads on if the process takes no sizes, or the client sends something else.
func (s *session) takeSizes(from io.Reader) {
	to := make(chan runtime.TerminalSize, 1)
	s.Resize = to
	s.goroutines.Go(func() {
		defer func() { _, _ = io.Copy(io.Discard, from) }()
		defer close(to)
		limited := &io.LimitedReader{R: from}
		d := json.NewDecoder(limited)
		for {
			var size runtime.TerminalSize
			limited.N = maxSize
			if d.Decode(&size) != nil {
				return
			}
			select {
			case <-to: // nobody has taken the size before
			default:
			}
			to <- size
		}
	})
}

// openSPDY upgrades to SPDY.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/remotecommand.createHTTPStreamStreams
func (s *session) openSPDY(r *http.Request, o streamOptions) (sizes io.Reader, ok bool) {
	protocol, err := httpstream.Handshake(r, s.u, []string{constants.StreamProtocolV4Name, constants.StreamProtocolV3Name,
		constants.StreamProtocolV2Name, constants.StreamProtocolV1Name})
	if err != nil {
		return nil, false
	}
	version := int(protocol[1] - '0') // v4.channel.k8s.io
	if protocol == constants.StreamProtocolV1Name {
		version = 1
	}
	streams, done := make(chan created), make(chan struct{})
	defer close(done)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(s.u, r, func(stream httpstream.Stream, replied <-chan struct{}) error {
		select {
		case streams <- created{stream, replied}:
			return nil
		case <-done:
			return fmt.Errorf("unexpected stream")
		}
	})
	if conn == nil {
		return nil, false
	}
	conn.SetIdleTimeout(idleTimeout)
	s.u.follow(conn.CloseChan())
	s.close = func() { _ = conn.Close() }
	wanted := map[string]bool{streamError: true, "stdin": o.stdin, "stdout": o.stdout, "stderr": o.stderr, streamResize: o.tty && version >= 3}
	found := map[string]httpstream.Stream{}
	expired := time.NewTimer(creationTimeout)
	defer expired.Stop()
	for missing(wanted, found) {
		select {
		case c := <-streams:
			kind := c.Headers().Get(streamType)
			if !c.await(s.u.gone, conn.CloseChan()) {
				s.close()
				return nil, false
			}
			if !wanted[kind] || found[kind] != nil {
				_ = c.Reset()
				continue
			}
			found[kind] = c.Stream
		case <-expired.C:
			s.close()
			return nil, false
		case <-s.u.gone:
			s.close()
			return nil, false
		case <-r.Context().Done():
			s.close()
			return nil, false
		}
	}
	s.first = found[streamError]
	if stream := found["stdin"]; stream != nil {
		s.Stdin = stream
	}
	if stream := found["stdout"]; stream != nil {
		s.Stdout = stream
	}
	if stream := found["stderr"]; stream != nil {
		s.Stderr = stream
	}
	if version == 1 && o.stdin {
		_ = found["stdin"].Close()
	}
	s.status = statusWriter(found[streamError], version >= 4)
	if stream := found[streamResize]; stream != nil {
		sizes = stream
	}
	return sizes, true
}

// missing reports whether a stream is still to be created.
func missing(wanted map[string]bool, found map[string]httpstream.Stream) bool {
	for kind, is := range wanted {
		if is && found[kind] == nil {
			return true
		}
	}
	return false
}

// statusWriter returns a function that writes a status: as JSON, or only the message of a failure.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/remotecommand.v4WriteStatusFunc
//upstream:k8s.io/cri-streaming/pkg/streaming/remotecommand.v1WriteStatusFunc
func statusWriter(w io.Writer, asJSON bool) func(*metav1.Status) {
	return func(status *metav1.Status) {
		switch {
		case asJSON:
			if text, err := json.Marshal(status); err == nil {
				_, _ = w.Write(text)
			}
		case status.Status != metav1.StatusSuccess:
			_, _ = io.WriteString(w, status.Message)
		}
	}
}

// The protocols of WebSockets. Channels have a number in the first byte, or are text in base64.
var webSockets = []struct {
	protocol string
	binary   bool
	asJSON   bool
}{
	{constants.StreamProtocolV5Name, true, true},
	{"v4." + wsstream.ChannelWebSocketProtocol, true, true},
	{"v4." + wsstream.Base64ChannelWebSocketProtocol, false, true},
	{wsstream.ChannelWebSocketProtocol, true, false},
	{wsstream.Base64ChannelWebSocketProtocol, false, false},
	{"", true, false},
}

// openWebSocket upgrades to a WebSocket.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/remotecommand.createWebSocketStreams
//upstream:k8s.io/apiserver/pkg/util/proxy.createWebSocketStreams
func (s *session) openWebSocket(r *http.Request, o streamOptions) (sizes io.Reader, ok bool) {
	kind := func(wanted bool, kind wsstream.ChannelType) wsstream.ChannelType {
		if wanted {
			return kind
		}
		return wsstream.IgnoreChannel
	}
	channels := []wsstream.ChannelType{
		constants.StreamStdIn:  kind(o.stdin, wsstream.ReadChannel),
		constants.StreamStdOut: kind(o.stdout, wsstream.WriteChannel),
		constants.StreamStdErr: kind(o.stderr, wsstream.WriteChannel),
		constants.StreamErr:    wsstream.WriteChannel,
		constants.StreamResize: kind(o.tty, wsstream.ReadChannel),
	}
	protocols := map[string]wsstream.ChannelProtocolConfig{}
	for _, p := range webSockets {
		protocols[p.protocol] = wsstream.ChannelProtocolConfig{Binary: p.binary, Channels: channels}
	}
	conn := wsstream.NewConn(protocols)
	conn.SetIdleTimeout(idleTimeout)
	protocol, streams, err := conn.Open(s.u, orderProtocols(quiet(r)))
	if err != nil {
		return nil, false
	}
	s.close = func() { _ = conn.Close() }
	if o.stdin {
		s.Stdin = streams[constants.StreamStdIn]
	}
	if o.stdout {
		s.Stdout = streams[constants.StreamStdOut]
	}
	if o.stderr {
		s.Stderr = streams[constants.StreamStdErr]
	}
	// An empty message tells the client that the connection is open.
	first := constants.StreamErr
	switch {
	case o.stdout:
		first = constants.StreamStdOut
	case o.stderr:
		first = constants.StreamStdErr
	}
	s.first = streams[first]
	_, _ = s.first.Write(nil)
	at := slices.IndexFunc(webSockets, func(p struct {
		protocol string
		binary   bool
		asJSON   bool
	}) bool {
		return p.protocol == protocol
	})
	s.status = statusWriter(streams[constants.StreamErr], webSockets[at].asJSON)
	return streams[constants.StreamResize], true
}

// quiet returns a request with a logger that discards: the library logs the end of each connection as an error.
func quiet(r *http.Request) *http.Request {
	return r.WithContext(klog.NewContext(r.Context(), logr.Discard()))
}

// orderProtocols returns a request with the protocols that this server knows first, since the library takes the client's
// first one or fails.
func orderProtocols(r *http.Request) *http.Request {
	var known []string
	for _, header := range r.Header[http.CanonicalHeaderKey(wsstream.WebSocketProtocolHeader)] {
		for p := range strings.SplitSeq(header, ",") {
			p = strings.TrimSpace(p)
			for _, w := range webSockets {
				if w.protocol == p && p != "" {
					known = append(known, p)
				}
			}
		}
	}
	if len(known) == 0 {
		return r
	}
	ordered := r.Clone(r.Context())
	ordered.Header.Set(wsstream.WebSocketProtocolHeader, strings.Join(known, ", "))
	return ordered
}
