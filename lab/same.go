package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"flyball.dev/internal/inprocess"
)

// sameResponses are responses that are the same in all runs, because all runs begin with the same control plane: the
// documents of discovery, and the initial events of the watches of the cluster's controllers. Without them, each run would
// serve the whole cluster to its controllers first.
type sameResponses struct {
	// discovered has the mappers and inventories that clients make from the documents of discovery.
	discovered sync.Map

	mu        sync.Mutex
	documents map[string]*document // by path and media type
	initial   map[string]*initial  // by URL and media type
}

// document is a response to a request that is not about a resource.
type document struct {
	code   int
	header http.Header
	body   []byte
}

// initial are the initial events of a watch.
type initial struct {
	header http.Header
	body   []byte
}

// Discovered implements inprocess.Discoverer.
func (w *world) Discovered() *sync.Map {
	if w.hasNewResources() {
		return nil
	}
	return &w.same.discovered
}

var (
	_ inprocess.Discoverer = (*process)(nil)
	_ inprocess.Observable = (*process)(nil)
)

// Observer implements inprocess.Observable, for the controllers of the cluster.
func (p *process) Observer() inprocess.Observer {
	if transport, ok := p.transport.(inprocess.Observable); ok && p.cluster {
		return transport.Observer()
	}
	return nil
}

// Discovered implements inprocess.Discoverer.
func (p *process) Discovered() *sync.Map { return p.world.Discovered() }

// hasNewResources reports whether the documents of discovery may differ from the ones of other runs.
func (w *world) hasNewResources() bool {
	select {
	case <-w.replaced:
		return true
	default:
	}
	return w.program != nil || w.resources.has("customresourcedefinitions") || w.resources.has("apiservices")
}

// discover answers a request for a document.
func (p *process) discover(r *http.Request) (*http.Response, error) {
	same := &p.world.same
	if r.Method != http.MethodGet || p.world.hasNewResources() {
		return p.transport.RoundTrip(r)
	}
	key := r.URL.RequestURI() + " " + r.Header.Get("Accept")
	same.mu.Lock()
	d := same.documents[key]
	same.mu.Unlock()
	if d == nil {
		response, err := p.transport.RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusOK {
			return response, err
		}
		d = &document{code: response.StatusCode, header: response.Header}
		d.body, err = io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return nil, err
		}
		if !p.world.hasNewResources() { // meanwhile
			same.keep(key, d)
		}
	}
	return &http.Response{Status: http.StatusText(d.code), StatusCode: d.code, Proto: "HTTP/2.0", ProtoMajor: 2, Header: d.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(d.body)), ContentLength: int64(len(d.body)), Request: r}, nil
}

// keep keeps a document for other runs.
func (s *sameResponses) keep(key string, d *document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.documents == nil {
		s.documents = map[string]*document{}
	}
	s.documents[key] = d
}

// otherKeys are the resources with keys in the storage that have not their name.
var otherKeys = map[string]string{"nodes": "minions", "ingresses": "ingress", "replicationcontrollers": "controllers"}

// written are the resources that a run has written, by the elements of their keys in the storage.
type written struct {
	mu       sync.Mutex
	elements map[string]bool
	waiting  map[*lateWatch]bool
}

func newWritten() *written {
	return &written{elements: map[string]bool{}, waiting: map[*lateWatch]bool{}}
}

// element returns the element of its keys by which a resource is known.
func element(resource string) string {
	resource, _, _ = strings.Cut(resource, ".")
	if other, ok := otherKeys[resource]; ok {
		return other
	}
	return resource
}

// has reports whether the run has written a resource.
func (w *written) has(resource string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.elements[element(resource)]
}

// add adds the key of an object that was written. It reports whether that lets a watch go on.
func (w *written) add(key string) (released bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for part := range strings.SplitSeq(key, "/") {
		w.elements[part] = true
	}
	for late := range w.waiting {
		if w.elements[element(late.resource)] {
			close(late.released)
			delete(w.waiting, late)
			released = true
		}
	}
	return released
}

// wait makes a watch wait for the first write of its resource. It returns false if there was one.
func (w *written) wait(late *lateWatch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.elements[element(late.resource)] {
		return false
	}
	w.waiting[late] = true
	return true
}

func (w *written) forget(late *lateWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, late)
}

// watchSame answers a watch of a controller of the cluster that begins with a list. While nobody has written the resource,
// the list is the same in each run, and the server does not know of the watch. It returns nil if that does not apply.
func (p *process) watchSame(r *http.Request, info *request.RequestInfo, a *action) (*http.Response, error) {
	if !p.cluster || info.Verb != "watch" || p.world.program != nil || !queryBool(r.URL, "sendInitialEvents") || p.world.resources.has(a.resource) {
		return nil, nil
	}
	q := r.URL.Query()
	q.Del("timeoutSeconds")
	key := r.URL.Path + "?" + q.Encode() + " " + r.Header.Get("Accept")
	same := &p.world.same
	same.mu.Lock()
	events := same.initial[key]
	same.mu.Unlock()
	if events == nil {
		response, err := p.transport.RoundTrip(r)
		if err == nil && response.StatusCode == http.StatusOK {
			response.Body = &recorder{ReadCloser: response.Body, header: response.Header, done: func(i *initial) {
				same.mu.Lock()
				defer same.mu.Unlock()
				if same.initial == nil {
					same.initial = map[string]*initial{}
				}
				if !p.world.resources.has(a.resource) {
					same.initial[key] = i
				}
			}}
		}
		return response, err
	}
	late := &lateWatch{process: p, request: r, resource: a.resource, buffer: bytes.NewReader(events.body),
		released: make(chan struct{}), closed: make(chan struct{})}
	if !p.world.resources.wait(late) {
		return nil, nil
	}
	return &http.Response{Status: "OK", StatusCode: http.StatusOK, Proto: "HTTP/2.0", ProtoMajor: 2, Header: events.header.Clone(),
		Body: late, ContentLength: -1, Request: r}, nil
}

// recorder is the body of a watch. It calls done with its initial events, once.
type recorder struct {
	io.ReadCloser
	header  http.Header
	content []byte
	scanned int // the length of the whole events in content
	done    func(*initial)
}

// Read implements io.Reader.
func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.done == nil {
		return n, err
	}
	r.content = append(r.content, p[:n]...)
	for {
		length := eventLength(r.content[r.scanned:], r.header.Get("Content-Type"))
		if length == 0 {
			return n, err
		}
		event := r.content[r.scanned : r.scanned+length]
		r.scanned += length
		if bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey)) && bytes.Contains(event, []byte("BOOKMARK")) {
			r.done(&initial{header: r.header, body: bytes.Clone(r.content[:r.scanned])})
			r.done, r.content = nil, nil
			return n, err
		}
	}
}

// eventLength returns the length of the first event of a watch, or 0 if content does not have the whole event.
func eventLength(content []byte, mediaType string) int {
	if strings.HasPrefix(mediaType, "application/json") {
		return bytes.IndexByte(content, '\n') + 1
	}
	if len(content) < 4 {
		return 0
	}
	if length := 4 + int(binary.BigEndian.Uint32(content)); length <= len(content) {
		return length
	}
	return 0
}

// lateWatch is the body of a watch that has its initial events already, and reaches the server when somebody has written
// its resource.
type lateWatch struct {
	process  *process
	request  *http.Request
	resource string
	buffer   *bytes.Reader // the initial events
	released chan struct{} // closed by written.add
	closed   chan struct{}
	once     sync.Once
	inner    io.ReadCloser // nil before the watch reaches the server
}

// Read implements io.Reader.
func (l *lateWatch) Read(p []byte) (int, error) {
	if l.buffer.Len() > 0 {
		return l.buffer.Read(p)
	}
	if l.inner == nil {
		select {
		case <-l.released:
		case <-l.closed:
			return 0, http.ErrBodyReadAfterClose
		case <-l.request.Context().Done():
			return 0, context.Cause(l.request.Context())
		}
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	return l.inner.Read(p)
}

// open begins the watch at the server, at the revision at which the run has begun.
func (l *lateWatch) open() error {
	r := l.request.Clone(l.request.Context())
	q := r.URL.Query()
	q.Del("sendInitialEvents")
	q.Del("resourceVersionMatch")
	q.Set("resourceVersion", strconv.FormatUint(l.process.world.origin, 10))
	r.URL.RawQuery = q.Encode()
	response, err := l.process.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return io.ErrUnexpectedEOF // the client lists again
	}
	l.inner = response.Body
	return nil
}

// Close implements io.Closer.
func (l *lateWatch) Close() error {
	l.once.Do(func() {
		l.process.world.resources.forget(l)
		close(l.closed)
	})
	if l.inner != nil {
		return l.inner.Close()
	}
	return nil
}
