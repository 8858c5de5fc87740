package endpoints

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metainternalversionvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	compbasemetrics "k8s.io/component-base/metrics"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"flyball.dev/apiserver/resource"
	"flyball.dev/internal/inprocess"
)

// watches is the fast path of the watches of a resource, for objects as JSON or protobuf. Each event is encoded and
// framed once for all watchers, or passed on as it is to a client in the process that may share objects. Initial events are made from
// the stored objects, without decoding these, if they are stored as the client wants them. The goroutine of the request
// reads the events from the store and writes them to the response.
type watches struct {
	storage  rest.Watcher
	scope    *handlers.RequestScope
	forced   bool     // by path (/watch/...)
	decoded  fallback // why the objects of initial events must be decoded
	upstream http.HandlerFunc

	formats sync.Map // media type → *watchFormat
}

// watchHandler returns the handler of a resource's watches. upstream is the fallback.
func watchHandler(storage rest.Watcher, scope *handlers.RequestScope, forced bool, upstream http.HandlerFunc) http.HandlerFunc {
	h := &watches{storage: storage, scope: scope, forced: forced, upstream: upstream}
	if store := registryOf(storage); store != nil {
		h.decoded = whyDecoded(store, scope)
	}
	return h.serve
}

// serve is an [http.HandlerFunc].
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.handleWatch
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.ListResource
func (h *watches) serve(w http.ResponseWriter, r *http.Request) {
	namespace, err := h.scope.Namer.Namespace(r)
	if err != nil {
		fallBack(errPath, h.upstream)(w, r)
		return
	}
	format, ok := h.format(r)
	if !ok {
		fallBack(errOutput, h.upstream)(w, r)
		return
	}
	options, ok := h.options(r)
	if !ok {
		fallBack(errParameters, h.upstream)(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(request.WithNamespace(r.Context(), namespace), watchTimeout(&options))
	defer cancel()
	watcher, err := h.storage.Watch(ctx, &options)
	if err != nil {
		responsewriters.ErrorNegotiated(err, h.scope.Serializer, h.scope.Kind.GroupVersion(), w, r)
		return
	}
	defer watcher.Stop()
	// The handler of k8s.io/apiserver serves all watches that filter or convert events.
	server, ok := watcher.(resource.EventServer)
	if !ok {
		watcher.Stop()
		fallBack(errEvents, h.upstream)(w, r)
		return
	}
	s := h.stream(ctx, w, format, &options)
	countFast(r, h.initialDecoded(s, &options))
	info, _ := request.RequestInfoFrom(ctx)
	metrics.RecordLongRunning(r, info, metrics.APIServerComponent, func() {
		s.compress = s.events == nil && isWatchList(&options) && responsewriters.ContentEncodingSupported(r, features.WatchListCompression) == "gzip"
		s.begin()
		server.ServeEvents(s.send, s.sendStored(), s.flush)
		s.end()
	})
}

// format returns the format of the events that a request asks for, or false if the fast path does not support it.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.serveWatchHandler
func (h *watches) format(r *http.Request) (*watchFormat, bool) {
	if wsstream.IsWebSocketRequest(r) {
		return nil, false
	}
	out, _, err := negotiation.NegotiateOutputMediaType(r, h.scope.Serializer, h.scope)
	if err != nil || out.Convert != nil || out.Accepted.StreamSerializer == nil {
		return nil, false
	}
	info := out.Accepted
	if f, ok := h.formats.Load(info.MediaType); ok {
		return f.(*watchFormat), true
	}
	contentType := info.MediaType
	switch contentType {
	case runtime.ContentTypeJSON:
	case runtime.ContentTypeProtobuf:
		contentType += ";stream=watch"
	default:
		return nil, false
	}
	f, _ := h.formats.LoadOrStore(info.MediaType, h.newFormat(info, contentType))
	return f.(*watchFormat), true
}

// newFormat returns the format of a media type.
func (h *watches) newFormat(info runtime.SerializerInfo, contentType string) *watchFormat {
	gv := h.scope.Kind.GroupVersion()
	f := &watchFormat{
		contentType: contentType,
		framer:      info.StreamSerializer.Framer,
		events:      h.scope.Serializer.EncoderForVersion(info.StreamSerializer.Serializer, gv),
		objects:     h.scope.Serializer.EncoderForVersion(info.Serializer, gv),
		identifiers: map[watch.EventType]runtime.Identifier{},
	}
	for _, t := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		f.identifiers[t] = runtime.Identifier(fmt.Sprintf("framed %s %s %s", t, f.events.Identifier(), f.objects.Identifier()))
	}
	f.appendStored = h.storedEvents(f)
	return f
}

// options returns the options of a watch, or false if they are invalid or the fast path does not support them.
func (h *watches) options(r *http.Request) (o metainternalversion.ListOptions, ok bool) {
	o, ok = listOptions(r, h.scope)
	return o, ok && (o.Watch || h.forced)
}

// listOptions returns the options of a list or a watch, or false if they are invalid.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.listOpts
func listOptions(r *http.Request, scope *handlers.RequestScope) (o metainternalversion.ListOptions, ok bool) {
	watchList := utilfeature.DefaultFeatureGate.Enabled(features.WatchList)
	if metainternalversionscheme.ParameterCodec.DecodeParameters(r.URL.Query(), scope.MetaGroupVersion, &o) != nil {
		return o, false
	}
	metainternalversion.SetListOptionsDefaults(&o, watchList)
	if len(metainternalversionvalidation.ValidateListOptions(&o, watchList)) > 0 {
		return o, false
	}
	if o.FieldSelector != nil {
		var err error
		o.FieldSelector, err = o.FieldSelector.Transform(func(label, value string) (string, string, error) {
			return scope.Convertor.ConvertFieldLabel(scope.Kind, label, value)
		})
		if err != nil {
			return o, false
		}
	}
	if _, name, err := scope.Namer.Name(r); err == nil {
		if o.FieldSelector == nil || o.FieldSelector.Empty() {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name)
		} else if selected, exact := o.FieldSelector.RequiresExactMatch(metav1.ObjectNameField); !exact || selected != name {
			return o, false
		}
	}
	return o, true
}

// isWatchList reports whether a watch begins with the existing objects, followed by a bookmark.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.isListWatchRequest
func isWatchList(o *metainternalversion.ListOptions) bool {
	return o.SendInitialEvents != nil && *o.SendInitialEvents && o.AllowWatchBookmarks
}

// initialDecoded returns why the objects of the initial events of a watch must be decoded, or "" if they need not or there are none.
func (h *watches) initialDecoded(s *watchStream, o *metainternalversion.ListOptions) fallback {
	initial := o.ResourceVersion == "" || o.ResourceVersion == "0"
	if o.SendInitialEvents != nil {
		initial = *o.SendInitialEvents
	}
	switch {
	case !initial:
		return ""
	case s.events != nil:
		return decodedShared
	}
	return h.decoded
}

// watchTimeout returns the duration of a watch, which is random unless the client sets it.
func watchTimeout(o *metainternalversion.ListOptions) time.Duration {
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds != 0 {
		return time.Duration(*o.TimeoutSeconds) * time.Second
	}
	return minWatch + rand.N(minWatch)
}

// watchFormat is the format of the events of a watch. The watches of a resource share it.
type watchFormat struct {
	contentType     string
	framer          runtime.Framer
	events, objects runtime.Encoder
	identifiers     map[watch.EventType]runtime.Identifier // of framed events
	appendStored    appendEvent                            // nil if all objects must be decoded
}

// write writes an event and its frame with a single call of Write.
func (f *watchFormat) write(e watch.Event, w io.Writer) error {
	if c, ok := e.Object.(runtime.CacheableObject); ok {
		return c.CacheEncode(f.identifiers[e.Type], func(obj runtime.Object, w io.Writer) error {
			return f.encode(e.Type, obj, w)
		}, w)
	}
	var framed bytes.Buffer
	if err := f.encode(e.Type, e.Object, &framed); err != nil {
		return err
	}
	_, err := w.Write(framed.Bytes())
	return err
}

// scratch holds the buffers for encoding an event.
type scratch struct{ object, event bytes.Buffer }

var scratches = sync.Pool{New: func() any { return &scratch{} }}

// maxScratch is the size in bytes above which buffers are not reused.
const maxScratch = 1 << 20

func (s *scratch) release() {
	if s.object.Cap()+s.event.Cap() > maxScratch {
		return
	}
	s.object.Reset()
	s.event.Reset()
	scratches.Put(s)
}

// encode encodes an event with its frame.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.watchEncoder.doEncode
func (f *watchFormat) encode(t watch.EventType, obj runtime.Object, w io.Writer) error {
	s := scratches.Get().(*scratch)
	defer s.release()
	allocator := runtime.AllocatorPool.Get().(*runtime.Allocator)
	defer runtime.AllocatorPool.Put(allocator)
	if err := encodeWith(f.objects, allocator, obj, &s.object); err != nil {
		return fmt.Errorf("unable to encode watch object %T: %w", obj, err)
	}
	outer := &metav1.WatchEvent{Type: string(t), Object: runtime.RawExtension{Raw: s.object.Bytes()}}
	if err := encodeWith(f.events, allocator, outer, &s.event); err != nil {
		return fmt.Errorf("unable to encode a watch event: %w", err)
	}
	_, err := f.framer.NewFrameWriter(w).Write(s.event.Bytes())
	return err
}

// encodeWith encodes an object, with memory of the allocator if the encoder can use it.
func encodeWith(e runtime.Encoder, allocator runtime.MemoryAllocator, obj runtime.Object, w io.Writer) error {
	if with, ok := e.(runtime.EncoderWithAllocator); ok {
		return with.EncodeWithAllocator(obj, w, allocator)
	}
	return e.Encode(obj, w)
}

// watchStream is the response to a watch. The stored objects of the initial events are written through a buffer.
type watchStream struct {
	ctx        context.Context
	format     *watchFormat
	writer     http.ResponseWriter
	compress   bool
	compressor *gzip.Writer          // of events that are not flushed; nil if there are none, or if the response is not compressed
	events     inprocess.EventWriter // nil if the events are encoded
	buffer     []byte                // nil after the initial events
	count      compbasemetrics.CounterMetric
	size       compbasemetrics.ObserverMetric
	flushed    bool
	initiated  func() // called after the bookmark that ends the initial events; nil if there is none
}

// stream returns the stream of a request.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.WatchServer.HandleHTTP
func (h *watches) stream(ctx context.Context, w http.ResponseWriter, f *watchFormat, o *metainternalversion.ListOptions) *watchStream {
	gvr := h.scope.Resource
	s := &watchStream{
		ctx: ctx, format: f, writer: w,
		count: metrics.WatchEvents.WithContext(ctx).WithLabelValues(gvr.Group, gvr.Version, gvr.Resource),
		size:  metrics.WatchEventsSizes.WithContext(ctx).WithLabelValues(gvr.Group, gvr.Version, gvr.Resource),
	}
	if h.storesServedVersion() {
		s.events = inprocess.EventWriterFrom(ctx)
	}
	if isWatchList(o) {
		scope := metrics.CleanListScope(ctx, o)
		s.initiated = func() {
			if received, ok := request.ReceivedTimestampFrom(ctx); ok {
				metrics.RecordWatchListLatency(ctx, gvr, scope, time.Since(received))
			}
		}
	}
	return s
}

// storesServedVersion reports whether a client that decodes events gets the objects that the storage has.
func (h *watches) storesServedVersion() bool {
	lister, ok := h.storage.(rest.Storage)
	if !ok || h.scope.Kind.GroupVersion() != h.scope.HubGroupVersion {
		return false
	}
	_, unstructured := lister.New().(runtime.Unstructured)
	return !unstructured
}

// begin sends the header.
func (s *watchStream) begin() {
	if s.events != nil {
		s.events.Begin()
	}
	s.writer.Header().Set("Content-Type", s.format.contentType)
	s.writer.Header().Set("Transfer-Encoding", "chunked")
	if s.compress {
		s.writer.Header().Set("Content-Encoding", "gzip")
		s.writer.Header().Add("Vary", "Accept-Encoding")
	}
	s.writer.WriteHeader(http.StatusOK)
	_ = s.flush() // the client has disconnected, which ends the context
}

// send writes an event to the response.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.shouldRecordWatchListLatency
func (s *watchStream) send(e watch.Event) error {
	if err := s.write(e); err != nil {
		utilruntime.HandleErrorWithContext(s.ctx, err, "Failed to encode watch event")
		return err
	}
	s.count.Inc()
	if e.Type != watch.Bookmark || s.initiated == nil {
		return nil
	}
	if end, err := apistorage.HasInitialEventsEndBookmarkAnnotation(e.Object); err == nil && end {
		s.initiated()
		s.initiated = nil
	}
	return nil
}

// write writes an event.
func (s *watchStream) write(e watch.Event) error {
	if s.events == nil {
		return s.format.write(e, s)
	}
	if shared, ok := e.Object.(resource.Shareable); ok {
		e.Object = shared.Shallow()
	}
	s.events.WriteEvent(e)
	return nil
}

// sendStored returns the function that sends stored objects, or nil if there is none.
//
//upstream:none kube-apiserver has decoded objects, and encodes each event.
func (s *watchStream) sendStored() resource.SendStored {
	if s.events != nil || s.format.appendStored == nil {
		return nil
	}
	return func(o resource.StoredObject) (sent bool, err error) {
		before := len(s.buffer)
		if s.buffer, sent = s.format.appendStored(s.buffer, o); !sent {
			return false, nil
		}
		s.flushed = false
		s.count.Inc()
		s.size.Observe(float64(len(s.buffer) - before))
		if len(s.buffer) > listBuffer {
			err = s.drain()
		}
		return true, err
	}
}

// drain writes the buffered events, and empties the buffer.
func (s *watchStream) drain() error {
	if len(s.buffer) == 0 {
		return nil
	}
	_, err := s.response().Write(s.buffer)
	if s.buffer = s.buffer[:0]; cap(s.buffer) > maxScratch {
		s.buffer = nil
	}
	return err
}

// response returns the writer for the bytes of events.
func (s *watchStream) response() io.Writer {
	if !s.compress {
		return s.writer
	}
	if s.compressor == nil {
		s.compressor = gzips.Get().(*gzip.Writer)
		s.compressor.Reset(s.writer)
	}
	return s.compressor
}

// Write implements [io.Writer] for one event. It records the size of the event.
func (s *watchStream) Write(event []byte) (int, error) {
	if err := s.drain(); err != nil {
		return 0, err
	}
	s.flushed = false
	s.size.Observe(float64(len(event)))
	return s.response().Write(event)
}

// flush sends the written events to the client. The initial events have been written when it is called.
func (s *watchStream) flush() error {
	if s.flushed {
		return nil
	}
	s.flushed = true
	err := s.end()
	return cmp.Or(http.NewResponseController(s.writer).Flush(), err)
}

// end writes the buffered events, and releases the buffer and the compressor, so that a watch without events holds neither.
func (s *watchStream) end() error {
	err := s.drain()
	s.buffer = nil
	if s.compressor != nil {
		// Close alone ends the last event in the block that ends the gzip stream. gzip.Reader returns this block only when
		// the next stream begins, so Flush comes first.
		err = cmp.Or(err, s.compressor.Flush(), s.compressor.Close())
		s.compressor.Reset(io.Discard)
		gzips.Put(s.compressor)
		s.compressor = nil
	}
	return err
}
