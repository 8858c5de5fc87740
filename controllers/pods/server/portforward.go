package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	constants "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"flyball.dev/controllers/pods/runtime"
)

// The headers of the streams of a forwarded port.
const (
	headerPort      = "port"
	headerRequestID = "requestID"
	streamData      = "data"
)

// maxForwarded bounds the connections that one client forwards at once.
const maxForwarded = 1000

// halfClosed is how long a connection may be silent after its client has sent everything, if it has no other way to learn
// about the client.
const halfClosed = time.Second

// portForward forwards connections to the ports of a pod.
//
//upstream:pkg/kubelet/server.Server.getPortForward
//upstream:k8s.io/cri-streaming/pkg/streaming/portforward.ServePortForward
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	u := newUpgrading(w)
	defer u.close()
	ctx, cancel := context.WithCancel(r.Context())
	f := &forwarder{runtime: s.o.Runtime, pod: podOf(r), ctx: ctx, cancel: cancel, gone: u.gone, pairs: map[string]*pair{}}
	defer f.connections.Wait()
	defer cancel()
	if wsstream.IsWebSocketRequest(r) {
		f.serveWebSocket(u, r)
	} else {
		f.serveSPDY(u, r)
	}
}

// forwarder forwards the connections of one client.
type forwarder struct {
	runtime runtime.Runtime
	pod     runtime.PodRef
	ctx     context.Context
	cancel  context.CancelFunc // closes the connections to the ports
	gone    <-chan struct{}

	connections sync.WaitGroup

	mu    sync.Mutex
	pairs map[string]*pair // by ID; without both streams, or in use
}

// pair are the streams of a connection.
type pair struct{ data, errors httpstream.Stream }

// dial connects to a port and copies in both directions until the connection ends. sent is closed when the client has
// sent everything, too.
func (f *forwarder) dial(port int32, client io.ReadWriter) (sent <-chan struct{}, err error) {
	conn, err := f.runtime.Dial(f.ctx, f.pod, port)
	if err != nil {
		return nil, fmt.Errorf("error forwarding port %d to pod %s, uid %s: %w", port, f.pod.Name, f.pod.UID, err)
	}
	stop := context.AfterFunc(f.ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	var silent *time.Timer
	var mu sync.Mutex
	done := make(chan struct{})
	f.connections.Go(func() {
		defer close(done)
		_, _ = io.Copy(conn, client)
		if c, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		silent = time.AfterFunc(halfClosed, func() { _ = conn.Close() })
	})
	buffer := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buffer)
		mu.Lock()
		if silent != nil {
			silent.Reset(halfClosed)
		}
		mu.Unlock()
		if n > 0 {
			if _, err := client.Write(buffer[:n]); err != nil {
				return done, nil // the client has gone
			}
		}
		if err != nil {
			mu.Lock()
			if silent != nil {
				silent.Stop()
			}
			mu.Unlock()
			return done, nil
		}
	}
}

// serveSPDY serves the streams of a client over SPDY: for each connection, one for data and one for errors.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/portforward.httpStreamHandler.run
func (f *forwarder) serveSPDY(u *upgrading, r *http.Request) {
	if _, err := httpstream.Handshake(r, u, []string{constants.PortForwardV1Name}); err != nil {
		return
	}
	streams, done := make(chan created), make(chan struct{})
	conn := spdy.NewResponseUpgrader().UpgradeResponse(u, r, func(stream httpstream.Stream, replied <-chan struct{}) error {
		if err := validStream(stream); err != nil {
			return err
		}
		select {
		case streams <- created{stream, replied}:
			return nil
		case <-done:
			return errors.New("the connection ends")
		}
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	defer close(done)
	defer u.probe(f.probe)()
	conn.SetIdleTimeout(idleTimeout)
	u.follow(conn.CloseChan())
	ended := make(chan string)
	expired := time.NewTicker(creationTimeout)
	defer expired.Stop()
	waiting := map[string]bool{} // for the other stream, since the last tick
	for {
		select {
		case c := <-streams:
			if !c.await(f.gone, conn.CloseChan()) {
				return
			}
			stream := c.Stream
			id := requestID(stream)
			p, ok := f.add(id, stream)
			if !ok {
				_ = stream.Reset()
				conn.RemoveStreams(stream)
				continue
			}
			if p.data != nil && p.errors != nil {
				f.connections.Go(func() {
					f.forward(p)
					select {
					case ended <- id:
					case <-done:
					}
				})
			}
		case id := <-ended:
			p := f.remove(id)
			conn.RemoveStreams(p.data, p.errors)
		case <-expired.C:
			for _, id := range f.incomplete() {
				if waiting[id] {
					p := f.remove(id)
					p.fail(errNoStreams.Error())
					conn.RemoveStreams(p.data, p.errors)
				}
				waiting[id] = !waiting[id]
			}
		case <-f.gone:
			return
		case <-f.ctx.Done():
			return
		}
	}
}

// add adds a stream to the pair of its connection. It reports false if the pair has a stream of the type, or there are too many
// connections.
func (f *forwarder) add(id string, stream httpstream.Stream) (p *pair, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p = f.pairs[id]; p == nil {
		if len(f.pairs) >= maxForwarded {
			return nil, false
		}
		p = &pair{}
		f.pairs[id] = p
	}
	return p, p.add(stream)
}

// incomplete returns the connections that have one stream.
func (f *forwarder) incomplete() (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, p := range f.pairs {
		if p.data == nil || p.errors == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// remove removes a connection, and returns its streams.
func (f *forwarder) remove(id string) *pair {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pairs[id]
	delete(f.pairs, id)
	return p
}

// probe sends an empty message to the client.
func (f *forwarder) probe() error {
	f.mu.Lock()
	var to httpstream.Stream
	for _, p := range f.pairs {
		if to = p.errors; to == nil {
			to = p.data
		}
		break
	}
	f.mu.Unlock()
	if to == nil {
		return nil
	}
	_, err := to.Write(nil)
	return err
}

// validStream returns an error if a stream has no port or no type.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/portforward.httpStreamReceived
func validStream(stream httpstream.Stream) error {
	text := stream.Headers().Get(headerPort)
	if port, err := strconv.ParseUint(text, 10, 16); err != nil || port < 1 {
		return fmt.Errorf("unable to parse %q as a port", text)
	}
	if kind := stream.Headers().Get(streamType); kind != streamError && kind != streamData {
		return fmt.Errorf("invalid stream type %q", kind)
	}
	return nil
}

// requestID returns the ID of the connection that a stream belongs to. Old clients send none, and create the stream for
// data next after the one for errors.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/portforward.httpStreamHandler.requestID
func requestID(stream httpstream.Stream) string {
	if id := stream.Headers().Get(headerRequestID); id != "" {
		return id
	}
	if stream.Headers().Get(streamType) == streamError {
		return strconv.Itoa(int(stream.Identifier()))
	}
	return strconv.Itoa(int(stream.Identifier()) - 2)
}

// add adds a stream, unless there is one of its type.
func (p *pair) add(stream httpstream.Stream) bool {
	to := &p.data
	if stream.Headers().Get(streamType) == streamError {
		to = &p.errors
	}
	if *to != nil {
		return false
	}
	*to = stream
	return true
}

// fail reports an error to the client, and resets the streams.
func (p *pair) fail(message string) {
	if p.errors != nil {
		_, _ = io.WriteString(p.errors, message)
		_ = p.errors.Reset()
	}
	if p.data != nil {
		_ = p.data.Reset()
	}
}

// forward forwards a connection over SPDY.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/portforward.httpStreamHandler.portForward
func (f *forwarder) forward(p *pair) {
	port, _ := strconv.ParseInt(p.data.Headers().Get(headerPort), 10, 32)
	sent, err := f.dial(int32(port), p.data)
	if err != nil {
		p.fail(err.Error())
		return
	}
	_ = p.data.Close()
	_ = p.errors.Close()
	select {
	case <-sent:
	case <-f.ctx.Done():
	}
}

// serveWebSocket serves the ports in the query of a WebSocket, each by a channel for data and a channel for errors.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/portforward.handleWebSocketStreams
func (f *forwarder) serveWebSocket(u *upgrading, r *http.Request) {
	ports, err := portsOf(r)
	if err != nil {
		http.Error(u, err.Error(), http.StatusBadRequest)
		return
	}
	var channels []wsstream.ChannelType
	for range ports {
		channels = append(channels, wsstream.ReadWriteChannel, wsstream.WriteChannel)
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		"": {Binary: true, Channels: channels},
		"v4." + wsstream.ChannelWebSocketProtocol:       {Binary: true, Channels: channels},
		"v4." + wsstream.Base64ChannelWebSocketProtocol: {Binary: false, Channels: channels},
	})
	conn.SetIdleTimeout(idleTimeout)
	_, streams, err := conn.Open(u, quiet(r))
	if err != nil {
		return
	}
	defer conn.Close()
	defer u.probe(func() error {
		_, err := streams[1].Write(nil)
		return err
	})()
	go func() {
		select {
		case <-f.ctx.Done():
		case <-f.gone:
			f.cancel() // a port that sends nothing would wait for ever
		}
		_ = conn.Close()
	}()
	var all sync.WaitGroup
	for i, port := range ports {
		data, failed := streams[2*i], streams[2*i+1]
		number := binary.LittleEndian.AppendUint16(nil, uint16(port))
		_, _ = data.Write(number)
		_, _ = failed.Write(number)
		all.Go(func() {
			if _, err := f.dial(port, data); err != nil {
				_, _ = io.WriteString(failed, err.Error())
			}
			_ = data.Close()
			_ = failed.Close()
		})
	}
	all.Wait()
}

// portsOf returns the ports in a query.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/portforward.NewV4Options
func portsOf(r *http.Request) (ports []int32, err error) {
	for _, list := range r.URL.Query()[headerPort] {
		for text := range strings.SplitSeq(list, ",") {
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil || port < 1 {
				return nil, fmt.Errorf("unable to parse %q as a port", text)
			}
			ports = append(ports, int32(port))
		}
	}
	if len(ports) == 0 || len(ports) > 100 {
		return nil, fmt.Errorf("query parameter %q is required", headerPort)
	}
	return ports, nil
}
