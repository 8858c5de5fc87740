package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"flyball.dev/bench/runtimes"
)

// Replay is a server of one kind whose answers were encoded beforehand. It is
// reached without a socket and costs next to nothing, so that what is measured
// is the client. It serves watches and one sort of lists: streaming ones, or
// those in pages. It takes updates, but keeps of them only that there was one:
// the object gets a new version and stays as it is otherwise.
type Replay struct {
	kind  Kind
	n     int
	paged bool
	codec serializer.CodecFactory

	mu      sync.Mutex
	films   map[string]*film
	streams map[*stream]string
	version uint64
}

// film is what is sent in one encoding.
type film struct {
	media runtime.SerializerInfo
	// list is the events of a streaming list.
	list []byte
	// pages are those of a list.
	pages map[span][]byte
	// changes are events that tell that an object changed, ready but for the
	// version, by the object's number.
	changes map[int]change
}

type change struct {
	event    []byte
	version  int // where in event the version stands
	from, to int // where in event the object stands
}

// firstVersion makes all versions have the same number of digits.
const firstVersion = 1_000_000_000

// NewReplay returns a server of n objects with streaming lists. If changing is
// set, the changes of the objects are encoded beforehand too.
func NewReplay(kind Kind, n int, changing bool) (*Replay, error) {
	r := &Replay{kind: kind, n: n}
	f, err := r.begin()
	if err != nil {
		return nil, err
	}
	for i := 0; changing && i < n; i++ {
		if _, err := r.change(f, i); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// begin makes the server ready in the encoding that clients prefer.
func (r *Replay) begin() (*film, error) {
	r.codec = serializer.NewCodecFactory(Scheme)
	r.films, r.streams, r.version = map[string]*film{}, map[*stream]string{}, firstVersion+uint64(r.n)
	media := runtime.ContentTypeJSON
	if _, ok := r.kind.Make(0).(runtime.ProtobufMarshaller); ok {
		media = runtime.ContentTypeProtobuf
	}
	return r.film(media)
}

// Server is how a runtime reaches it.
func (r *Replay) Server() runtimes.Server { return serve(r) }

func serve(transport http.RoundTripper) runtimes.Server {
	return runtimes.Server{Config: &rest.Config{Host: "http://replay", Transport: transport, QPS: -1}, Scheme: Scheme, Mapper: Mapper()}
}

// Replays is a server of several kinds.
type Replays []*Replay

// Server is how a runtime reaches it.
func (all Replays) Server() runtimes.Server { return serve(all) }

// RoundTrip implements http.RoundTripper.
func (all Replays) RoundTrip(req *http.Request) (*http.Response, error) {
	for _, r := range all {
		if path.Base(req.URL.Path) == r.kind.Resource {
			return r.RoundTrip(req)
		}
	}
	return nil, fmt.Errorf("the replay does not serve %s", req.URL.Path)
}

// Change sends all watchers that the nth object changed, which it did in its
// version alone. Before is told that version before anything is sent.
func (r *Replay) Change(n int, before func(version uint64)) error {
	version, send, err := r.Burst(n, n+1)
	if err != nil {
		return err
	}
	before(version)
	send()
	return nil
}

// Burst makes ready to send that the objects from one number up to another
// changed, all at once. It returns the last version and the function that sends
// them. The versions go on from one call to the next.
func (r *Replay) Burst(from, to int) (last uint64, send func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	chunks := make(map[*stream][]byte, len(r.streams))
	for s, media := range r.streams {
		if chunks[s], err = r.changes(r.films[media], from, to); err != nil {
			return 0, nil, err
		}
	}
	r.version += uint64(to - from)
	return r.version, func() {
		for s, chunk := range chunks {
			s.send(chunk)
		}
	}, nil
}

// changes returns the events of a burst, one after the other. The caller holds
// mu.
func (r *Replay) changes(f *film, from, to int) ([]byte, error) {
	var events []byte
	for n := from; n < to; n++ {
		c, err := r.change(f, n)
		if err != nil {
			return nil, err
		}
		version := len(events) + c.version
		events = append(events, c.event...)
		strconv.AppendUint(events[:version], r.version+uint64(n-from)+1, 10)
	}
	return events, nil
}

// RoundTrip implements http.RoundTripper.
func (r *Replay) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.film(accepted(req.Header.Get("Accept")))
	if err != nil {
		return nil, err
	}
	if req.Method == http.MethodPut {
		return r.update(req, f)
	}
	query := req.URL.Query()
	watching, initially := query.Get("watch") == "true" || query.Get("watch") == "1", query.Get("sendInitialEvents") == "true"
	switch {
	case !watching && r.paged:
		return r.list(req, f)
	case !watching:
		return refuse(req, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: r.kind.Resource}, "list"))
	case initially && r.paged:
		return refuse(req, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
		}))
	}
	s := newStream(req.Context(), func(s *stream) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.streams, s)
	})
	r.streams[s] = f.media.MediaType
	if initially {
		s.send(f.list)
	}
	return response(req, http.StatusOK, f.media.MediaType+";stream=watch", s), nil
}

// update answers an update and tells all watchers of it. The caller holds mu.
func (r *Replay) update(req *http.Request, f *film) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(req.URL.Path, "/status")
	n := Number(runtimes.Key{Name: path.Base(name)})
	c, err := r.change(f, n)
	if err != nil {
		return nil, err
	}
	for s, media := range r.streams {
		event, err := r.changes(r.films[media], n, n+1)
		if err != nil {
			return nil, err
		}
		s.send(event)
	}
	r.version++
	answer := bytes.Clone(c.event)
	strconv.AppendUint(answer[:c.version], r.version, 10)
	return response(req, http.StatusOK, f.media.MediaType, io.NopCloser(bytes.NewReader(answer[c.from:c.to]))), nil
}

// refuse answers a client that asks for the other sort of list, so that nobody
// measures that by mistake.
func refuse(req *http.Request, why *apierrors.StatusError) (*http.Response, error) {
	status := why.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	return response(req, int(status.Code), runtime.ContentTypeJSON, io.NopCloser(bytes.NewReader(body))), err
}

func response(req *http.Request, code int, media string, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header{"Content-Type": {media}}, Body: body, ContentLength: -1, Request: req,
	}
}

// accepted returns the first media type that a client asks for.
func accepted(header string) string {
	media, _, _ := strings.Cut(header, ",")
	media, _, _ = strings.Cut(media, ";")
	return media
}

// film returns what is sent in an encoding. The caller holds mu, if anybody else
// knows of r.
func (r *Replay) film(media string) (*film, error) {
	if f := r.films[media]; f != nil {
		return f, nil
	}
	info, ok := runtime.SerializerInfoForMediaType(r.codec.SupportedMediaTypes(), media)
	if !ok {
		return nil, fmt.Errorf("the replay does not speak %q", media)
	}
	f := &film{media: info, pages: map[span][]byte{}, changes: map[int]change{}}
	if !r.paged {
		var err error
		if f.list, err = r.stream(f); err != nil {
			return nil, err
		}
	}
	r.films[media] = f
	return f, nil
}

// stream returns the events of a streaming list.
func (r *Replay) stream(f *film) ([]byte, error) {
	var list bytes.Buffer
	for i := range r.n {
		if err := f.write(&list, watch.Added, r.kind.Served(i, strconv.Itoa(firstVersion+i))); err != nil {
			return nil, err
		}
	}
	err := f.write(&list, watch.Bookmark, r.bookmark())
	return bytes.Clone(list.Bytes()), err
}

// bookmark is the end of a streaming list.
func (r *Replay) bookmark() runtimes.Object {
	obj := r.kind.One()
	obj.SetResourceVersion(strconv.Itoa(firstVersion + r.n))
	obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return obj
}

func (r *Replay) change(f *film, n int) (change, error) {
	if c, ok := f.changes[n]; ok {
		return c, nil
	}
	mark := strconv.Itoa(firstVersion - 1 + firstVersion) // a version that no object has
	var event, object bytes.Buffer
	obj := r.kind.Served(n, mark)
	err := errors.Join(f.write(&event, watch.Modified, obj), encode(f.media.Serializer, obj, &object))
	text := bytes.TrimSpace(object.Bytes())
	from := bytes.Index(event.Bytes(), text)
	c := change{event.Bytes(), bytes.Index(event.Bytes(), []byte(mark)), from, from + len(text)}
	f.changes[n] = c
	return c, err
}

// write writes an event as a watch sends it.
func (f *film) write(w io.Writer, kind watch.EventType, obj runtimes.Object) error {
	var encoded bytes.Buffer
	if err := encode(f.media.Serializer, obj, &encoded); err != nil {
		return err
	}
	event := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: encoded.Bytes()}}
	return f.media.StreamSerializer.Encode(event, f.media.StreamSerializer.Framer.NewFrameWriter(w))
}

func encode(to runtime.Encoder, obj runtime.Object, w io.Writer) error {
	gvks, _, err := Scheme.ObjectKinds(obj)
	if err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvks[0])
	return to.Encode(obj, w)
}

// stream is the body of a watch.
type stream struct {
	ended func(*stream)

	mu     sync.Mutex
	more   sync.Cond
	chunks [][]byte
	closed bool
}

func newStream(ctx context.Context, ended func(*stream)) *stream {
	s := &stream{ended: ended}
	s.more.L = &s.mu
	context.AfterFunc(ctx, func() { s.Close() })
	return s
}

// send makes a chunk readable, which must not be changed any more.
func (s *stream) send(chunk []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks = append(s.chunks, chunk)
	s.more.Signal()
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.chunks) == 0 && !s.closed {
		s.more.Wait()
	}
	if s.closed {
		return 0, io.EOF
	}
	n := copy(p, s.chunks[0])
	if s.chunks[0] = s.chunks[0][n:]; len(s.chunks[0]) == 0 {
		s.chunks[0] = nil // so that nothing keeps it
		s.chunks = s.chunks[1:]
	}
	return n, nil
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed = true
	s.more.Broadcast()
	s.mu.Unlock()
	s.ended(s)
	return nil
}
