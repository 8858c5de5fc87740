package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A stream is an open watch of a process. Its goroutine reads the events of the server, and passes each on when the lab
// has chosen it.
type stream struct {
	process  *process
	resource string
	inner    io.ReadCloser // of the server
	frames   frames
	out      *pipe // to the client
	cancel   context.CancelFunc
	ctx      context.Context

	// missed is the canonical name of the object with an event that the client never sees, while the stream waits for
	// its next event.
	missed string
	// silent says that the client sees nothing but bookmarks.
	silent bool
}

// metadata are the fields of an object's metadata that identify it.
type metadata struct {
	Name, Namespace, GenerateName, UID string
	ResourceVersion                    string
	Annotations                        map[string]string
}

// watch opens a watch and returns the response with the events that the lab lets through.
func (p *process) watch(r *http.Request, a *action) (*http.Response, error) {
	response, err := p.transport.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	frames := framesOf(response)
	if frames == nil {
		return response, nil
	}
	s := &stream{process: p, resource: a.resource, inner: response.Body, frames: frames, out: newPipe()}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	s.out.onClose = s.close
	if !p.world.addStream(p, s) {
		s.close()
		return nil, errCrashed
	}
	initial := queryBool(r.URL, "sendInitialEvents")
	go s.run(initial)
	response.Body = s.out
	return response, nil
}

// close ends the stream. The goroutine of the stream ends.
func (s *stream) close() {
	s.cancel()
	s.inner.Close()
}

// run passes on the events of the server. Initial events are the content of a list, and are passed on at once.
func (s *stream) run(initial bool) {
	defer s.process.world.removeStream(s.process, s)
	defer s.close()
	for {
		raw, f, err := s.frames.next()
		if err != nil {
			s.out.end(errorOf(err))
			return
		}
		switch {
		case f.Type == "ERROR":
		case f.Type == "BOOKMARK":
			if f.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
				initial = false
			} else if s.isAhead(f) {
				continue
			}
		case initial:
		default:
			if len(s.process.world.counters) > 0 {
				f.content = objectOf(raw)
			}
			if !s.pass(f) {
				return
			}
			if s.missed != "" {
				continue
			}
			if s.silent {
				raw = s.frames.bookmark(f)
			}
		}
		s.out.write(raw)
	}
}

// errorOf returns the error with which a response ends.
func errorOf(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, http.ErrBodyReadAfterClose) {
		return io.EOF
	}
	return err
}

// isAhead reports whether a bookmark is later than the frozen view of the process.
func (s *stream) isAhead(f *frame) bool {
	frozen, ok := s.process.world.frozenAt(s.process, s.resource)
	return ok && f.revision() > frozen || s.missed != ""
}

func (f *frame) revision() uint64 {
	revision, _ := strconv.ParseUint(f.Object.Metadata.ResourceVersion, 10, 64)
	return revision
}

// pass waits until the lab has chosen the event, and reports whether the stream goes on.
func (s *stream) pass(f *frame) bool {
	p, m := s.process, &f.Object.Metadata
	p.world.names.seen(s.resource, m.Namespace, m.GenerateName, m.Name)
	a := &action{process: p, verb: see, resource: s.resource, change: f.Type, revision: f.revision(),
		content: f.content, object: p.world.names.canonical(s.resource, m.Namespace, m.Name)}
	if a.lock = p.world.locks.has(a, nil); a.lock {
		return true
	}
	if s.silent {
		return true
	}
	if s.missed != "" {
		if a.object == s.missed && !s.missing() {
			s.expire()
			return false
		}
		return true
	}
	v, err := p.world.wait(s.ctx, a)
	switch {
	case err != nil, v.dead, v.fault.is(CrashBefore):
		s.out.end(errCrashed)
		return false
	case v.fault.is(Close):
		s.out.end(io.EOF)
		return false
	case v.fault.is(Expire):
		s.expire()
		return false
	case v.fault.is(Miss):
		s.missed = a.object
		p.world.miss(s)
	case v.fault.is(Bookmarks):
		s.silent = true
		p.world.miss(s)
	}
	return true
}

// missing reports whether further events of the missed object are hidden.
func (s *stream) missing() bool { return s.process.world.missing(s) }

// objectOf returns the object of an event.
func objectOf(event []byte) json.RawMessage {
	var f struct{ Object json.RawMessage }
	_ = json.Unmarshal(event, &f) // the event has been decoded before
	return f.Object
}

// expire ends the watch with 410 Gone.
func (s *stream) expire() {
	s.out.write(s.frames.failure(&metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		Message: "too old resource version",
	}))
	s.out.end(io.EOF)
}

// metadataOf returns the metadata of an encoded object.
func metadataOf(content []byte) metadata {
	if bytes.HasPrefix(content, protobufPrefix) {
		return protobufMetadata(content)
	}
	var o struct{ Metadata metadata }
	if json.Unmarshal(content, &o) != nil {
		return metadata{}
	}
	return o.Metadata
}

// pipe passes the content of a response to its reader. Writers never block.
type pipe struct {
	onClose func()

	mu      sync.Mutex
	changed sync.Cond
	buffer  bytes.Buffer
	err     error // after the content of the buffer
	closed  bool
}

func newPipe() *pipe {
	p := &pipe{}
	p.changed.L = &p.mu
	return p
}

func (p *pipe) write(content []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffer.Write(content)
	p.changed.Broadcast()
}

// end ends the content. The first error counts.
func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.changed.Broadcast()
}

// Read implements io.Reader.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.buffer.Len() == 0 && p.err == nil && !p.closed {
		p.changed.Wait()
	}
	switch {
	case p.closed:
		return 0, http.ErrBodyReadAfterClose
	case p.buffer.Len() > 0:
		return p.buffer.Read(b)
	}
	return 0, p.err
}

// Close implements io.Closer.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.changed.Broadcast()
	p.mu.Unlock()
	p.onClose()
	return nil
}
