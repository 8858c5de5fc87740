package reflector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/cache/internal/wire"
	"flyball.dev/ctrl/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a server of one kind whose requests can be made to fail. It implements
// http.RoundTripper.
type server struct {
	mu       sync.Mutex
	version  int
	objects  map[string]*corev1.ConfigMap
	events   []apiwatch.Event
	first    int // the oldest version from which a watch can start
	watchers []*watcher
	calls    []string

	media       string // of responses
	piece       int    // how many bytes a read returns
	streams     bool
	page        int
	listErr     []error // for the next calls of List
	watchErr    []error // for the next calls of Watch
	neverSynced bool    // watch lists do not end their initial events
}

func newServer() *server {
	return &server{
		version: 1, objects: map[string]*corev1.ConfigMap{}, streams: true, page: 3,
		media: runtime.ContentTypeProtobuf, piece: 1000,
	}
}

// source returns a client of the server that asks for protobuf.
func (s *server) source(t *testing.T) Source {
	gv := corev1.SchemeGroupVersion
	c, err := wire.NewClient(&rest.Config{
		Host: "http://server", APIPath: "/api", QPS: -1,
		ContentConfig: rest.ContentConfig{
			GroupVersion: &gv, ContentType: runtime.ContentTypeProtobuf,
			NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		},
	}, &http.Client{Transport: s}, wire.Resource{
		Name: "configmaps", Kind: gv.WithKind("ConfigMap"), ListKind: gv.WithKind("ConfigMapList"),
		New:     func() client.Object { return &corev1.ConfigMap{} },
		NewList: func() (client.ObjectList, error) { return &corev1.ConfigMapList{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return source{c}
}

// source is a wire.Client as a Source.
type source struct{ *wire.Client }

func (s source) Watch(ctx context.Context, opts metav1.ListOptions) (Stream, error) {
	w, err := s.Client.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// watcher is the response body of a watch.
type watcher struct {
	server *server
	ch     chan []byte
	left   []byte
	stop   func()
	closed chan struct{}
	broken error // returned by Read at the end
}

// send sends an event. The caller holds mu.
func (w *watcher) send(e apiwatch.Event) {
	w.ch <- w.server.frame(e)
}

// Read implements io.Reader.
func (w *watcher) Read(p []byte) (int, error) {
	for len(w.left) == 0 {
		select {
		case <-w.closed:
			return 0, errors.New("read after close")
		case data, open := <-w.ch:
			if !open {
				return 0, w.broken
			}
			w.left = data
		}
	}
	n := copy(p, w.left[:min(len(w.left), w.server.piece)])
	w.left = w.left[n:]
	return n, nil
}

// Close implements io.Closer.
func (w *watcher) Close() error {
	w.stop()
	return nil
}

// frame encodes an event.
func (s *server) frame(e apiwatch.Event) []byte {
	return s.frameOf(e.Type, s.encode(e.Object))
}

func (s *server) frameOf(kind apiwatch.EventType, object []byte) []byte {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), s.media)
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}
	var frame bytes.Buffer
	if err := info.StreamSerializer.Encode(&event, info.StreamSerializer.Framer.NewFrameWriter(&frame)); err != nil {
		panic(err)
	}
	return frame.Bytes()
}

func (s *server) encode(obj runtime.Object) []byte {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), s.media)
	data, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), obj)
	if err != nil {
		panic(err)
	}
	return data
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body io.ReadCloser
	list, err := runtime.Object(nil), error(nil)
	if q := req.URL.Query(); q.Get("watch") == "true" {
		body, err = s.watch(q)
	} else {
		list, err = s.list(q.Get("continue"))
	}
	code := http.StatusOK
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		answer := status.Status()
		list, code = &answer, int(answer.Code)
	} else if err != nil {
		return nil, err
	}
	if list != nil {
		body = io.NopCloser(bytes.NewReader(s.encode(list)))
	}
	return &http.Response{StatusCode: code, Body: body, Header: http.Header{"Content-Type": {s.media}}, Request: req}, nil
}

func (s *server) list(page string) (runtime.Object, error) {
	s.calls = append(s.calls, "list "+page)
	if err := take(&s.listErr); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(s.objects))
	version, from := s.version, ""
	if page != "" {
		fmt.Sscanf(page, "%d/%s", &version, &from)
		if version < s.first {
			return nil, apierrors.NewResourceExpired("the page has expired")
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name < from })
	}
	var list corev1.ConfigMapList
	list.ResourceVersion = strconv.Itoa(version)
	if len(names) > s.page {
		list.Continue = fmt.Sprintf("%d/%s", version, names[s.page])
		names = names[:s.page]
	}
	for _, name := range names {
		list.Items = append(list.Items, *s.objects[name])
	}
	return &list, nil
}

// watch returns the body of a watch: the initial events or the history, then live events.
func (s *server) watch(q url.Values) (io.ReadCloser, error) {
	call, from := "watch", q.Get("resourceVersion")
	if q.Get("sendInitialEvents") != "" {
		call = "stream"
	}
	s.calls = append(s.calls, call+" "+from)
	if err := take(&s.watchErr); err != nil {
		return nil, err
	}
	w := &watcher{server: s, ch: make(chan []byte, 10000), closed: make(chan struct{}), broken: io.EOF}
	w.stop = sync.OnceFunc(func() { close(w.closed) })
	if call == "stream" {
		if !s.streams {
			return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
		}
		for _, name := range slices.Sorted(maps.Keys(s.objects)) {
			w.send(apiwatch.Event{Type: apiwatch.Added, Object: s.objects[name]})
		}
		if !s.neverSynced {
			end := bookmark(s.version)
			end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			w.send(apiwatch.Event{Type: apiwatch.Bookmark, Object: end})
		}
	} else {
		from, _ := strconv.Atoi(from)
		if from < s.first {
			w.send(failure(apierrors.NewResourceExpired("too old")))
			close(w.ch)
			return w, nil
		}
		for _, e := range s.events {
			if v, _ := store.Version(e.Object.(client.Object)); int(v) > from {
				w.send(e)
			}
		}
	}
	s.watchers = append(s.watchers, w)
	go func() { <-w.closed; s.drop(w) }()
	return w, nil
}

// set changes the server under its lock.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func take(errs *[]error) error {
	if len(*errs) == 0 {
		return nil
	}
	err := (*errs)[0]
	*errs = (*errs)[1:]
	return err
}

func bookmark(version int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version)}}
}

func failure(err apierrors.APIStatus) apiwatch.Event {
	return apiwatch.Event{Type: apiwatch.Error, Object: new(err.Status())}
}

// drop closes the connection of a watcher.
func (s *server) drop(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.watchers, w); i >= 0 {
		s.watchers = slices.Delete(s.watchers, i, i+1)
		close(w.ch)
	}
	w.stop()
}

func (s *server) dropAll() {
	var all []*watcher
	s.set(func() { all = slices.Clone(s.watchers) })
	for _, w := range all {
		s.drop(w)
	}
}

// send sends an event that is not part of the history.
func (s *server) send(e apiwatch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		w.send(e)
	}
}

// sendBytes sends bytes that need not be an event.
func (s *server) sendBytes(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		w.ch <- data
	}
}

// breakAll makes all connections fail.
func (s *server) breakAll(err error) {
	s.set(func() {
		for _, w := range s.watchers {
			w.broken = err
		}
	})
	s.dropAll()
}

// put writes an object, or deletes it.
func (s *server) put(name string, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.objects[name]
	if before == nil && !exists {
		return
	}
	s.version++
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(s.version)}}
	e := apiwatch.Event{Type: apiwatch.Added, Object: obj}
	switch {
	case !exists:
		e.Type = apiwatch.Deleted
		delete(s.objects, name)
	case before != nil:
		e.Type = apiwatch.Modified
		s.objects[name] = obj
	default:
		s.objects[name] = obj
	}
	s.events = append(s.events, e)
	for _, w := range s.watchers {
		w.send(e)
	}
}

// compact makes all but the latest version expire.
func (s *server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = s.version
}

// sink passes objects to a store.
type sink struct {
	*store.Scope
	store     *store.Store
	completed atomic.Int32
	// pending is how many changes were passed since the sink was idle.
	pending atomic.Int32
}

func (s *sink) Listed(obj client.Object)  { s.Scope.Listed(obj) }
func (s *sink) Changed(obj client.Object) { s.Scope.Changed(obj); s.pending.Add(1) }
func (s *sink) Idle()                     { s.Scope.Idle(); s.pending.Store(0) }
func (s *sink) Deleted(obj client.Object) { s.Scope.Deleted(obj) }
func (s *sink) Complete(version string)   { s.Scope.Complete(version); s.completed.Add(1) }

// start runs a reflector of a server until the test ends.
func start(t *testing.T, s *server, bookmarks bool) (*sink, *[]error) {
	st := store.New(store.ShareAsked)
	k := &sink{Scope: st.Scope(""), store: st}
	var errs []error
	r := &Reflector{Source: s.source(t), Sink: k, Bookmarks: bookmarks, OnError: func(_ context.Context, err error) { errs = append(errs, err) }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return k, &errs
}

// expectEqual fails the test unless the sink holds the server's objects, and was idle after the
// last change.
func expectEqual(t *testing.T, k *sink, s *server) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	got := map[string]string{}
	for _, n := range k.store.Watched() {
		got[n.Key.Name] = n.Object().GetResourceVersion()
	}
	want := map[string]string{}
	for _, obj := range s.objects {
		want[obj.Name] = obj.ResourceVersion
	}
	if !maps.Equal(got, want) {
		t.Fatalf("got %v, want %v after %v", got, want, s.calls)
	}
	if n := k.pending.Load(); n > 0 {
		t.Fatalf("the sink was not idle since %d changes", n)
	}
}

// advance advances the time and waits until all goroutines are blocked.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func fill(s *server) {
	for i := range 10 {
		s.put(fmt.Sprint("object-", i), true)
	}
}

func TestListAndWatch(t *testing.T) {
	for _, streams := range []bool{true, false} {
		for _, bookmarks := range []bool{true, false} {
			t.Run(fmt.Sprintf("streams=%v bookmarks=%v", streams, bookmarks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer()
					s.streams = streams
					fill(s)
					k, errs := start(t, s, bookmarks)
					expectEqual(t, k, s)
					s.put("object-3", true)
					s.put("object-4", false)
					s.put("more", true)
					expectEqual(t, k, s)
					if k.completed.Load() != 1 || len(*errs) != 0 {
						t.Errorf("%d lists, errors %v", k.completed.Load(), *errs)
					}
				})
			})
		}
	}
}

// The reflector recovers from a fault in each state.
func TestFaults(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	refused := errors.New("connection refused")
	tests := []struct {
		name  string
		setUp func(*server)
		fault func(*server)
		lists int
		calls []string
	}{
		{"refused at first", func(s *server) { s.watchErr = []error{refused, refused} }, nil,
			1, []string{"stream ", "stream ", "stream "}},
		{"expired at first", func(s *server) { s.watchErr = []error{expired} }, nil,
			1, []string{"stream ", "stream "}},
		{"a page expires", func(s *server) { s.streams = false; s.listErr = []error{nil, expired} }, nil,
			1, []string{"stream ", "list ", "list 11/object-3", "list ", "list 11/object-3", "list 11/object-6", "list 11/object-9", "watch 11"}},
		{"a page fails", func(s *server) { s.streams = false; s.listErr = []error{nil, nil, refused} }, nil,
			1, []string{"stream ", "list ", "list 11/object-3", "list 11/object-6", "list ", "list 12/object-3", "list 12/object-6", "list 12/object-9", "watch 12"}},
		{"a watch list never ends", func(s *server) { s.neverSynced = true }, nil,
			1, []string{"stream ", "list ", "list 12/object-3", "list 12/object-6", "list 12/object-9", "watch 12"}},
		{"the watch is refused", func(s *server) { s.streams = false; s.watchErr = []error{nil, refused, refused} }, nil,
			1, nil},
		{"the watch expires at once", func(s *server) { s.streams = false; s.watchErr = []error{nil, expired} }, nil,
			2, nil},
		{"the connection drops", nil, (*server).dropAll,
			1, []string{"stream ", "watch 11"}},
		{"the watch expires", nil, func(s *server) { s.send(failure(expired)); s.dropAll() },
			2, []string{"stream ", "stream "}},
		{"invalid bytes", nil, func(s *server) { s.sendBytes([]byte("<html>")) },
			2, []string{"stream ", "stream "}},
		{"an empty frame", nil, func(s *server) { s.sendBytes([]byte{0, 0, 0, 0}) },
			2, []string{"stream ", "stream "}},
		{"an unknown event type", nil, func(s *server) {
			s.send(apiwatch.Event{Type: "PEACE", Object: bookmark(11)})
		}, 2, []string{"stream ", "stream "}},
		{"an object that cannot be decoded", nil, func(s *server) {
			broken := `{"apiVersion":"v1","kind":"ConfigMap","metadata":7}`
			if s.media == runtime.ContentTypeProtobuf {
				broken = "k8s\x00" + broken
			}
			s.sendBytes(s.frameOf(apiwatch.Modified, []byte(broken)))
		}, 2, []string{"stream ", "stream "}},
		{"a cut in the middle of a frame", nil, func(s *server) {
			event := s.frame(apiwatch.Event{Type: apiwatch.Modified, Object: s.objects["object-2"]})
			s.sendBytes(event[:len(event)-3])
			s.dropAll()
		}, 1, []string{"stream ", "watch 11"}},
		{"the connection fails", nil, func(s *server) { s.breakAll(errors.New("stream error: stream ID 7; INTERNAL_ERROR")) },
			1, []string{"stream ", "watch 11"}},
		{"many events at once", nil, func(s *server) {
			var events []byte
			for i := range 2000 {
				obj := s.objects["object-2"].DeepCopy()
				obj.ResourceVersion = strconv.Itoa(100 + i)
				s.set(func() { s.objects["object-2"], s.version = obj, 100+i })
				events = append(events, s.frame(apiwatch.Event{Type: apiwatch.Modified, Object: obj})...)
			}
			s.sendBytes(events)
			s.dropAll()
		}, 1, []string{"stream ", "watch 2099"}},
		{"an unexpected error", nil, func(s *server) {
			s.send(failure(apierrors.NewInternalError(refused)))
			s.dropAll()
		}, 1, []string{"stream ", "watch 11"}},
		{"the history expires meanwhile", nil, func(s *server) { s.dropAll(); s.put("object-1", false); s.compact() },
			2, []string{"stream ", "watch 11", "stream "}},
		{"duplicate events", nil, func(s *server) {
			s.send(apiwatch.Event{Type: apiwatch.Modified, Object: s.objects["object-2"].DeepCopy()})
		}, 1, []string{"stream "}},
		{"stale events", nil, func(s *server) {
			stale := s.objects["object-2"].DeepCopy()
			s.put("object-2", true)
			s.send(apiwatch.Event{Type: apiwatch.Modified, Object: stale})
			s.send(apiwatch.Event{Type: apiwatch.Deleted, Object: stale.DeepCopy()})
		}, 1, []string{"stream "}},
		{"only bookmarks, then a drop", nil, func(s *server) {
			s.set(func() { s.version = 50 })
			s.send(apiwatch.Event{Type: apiwatch.Bookmark, Object: bookmark(50)})
			synctest.Wait()
			s.dropAll()
		}, 1, []string{"stream ", "watch 50"}},
		{"an event without an object", nil, func(s *server) {
			s.send(apiwatch.Event{Type: apiwatch.Added, Object: &metav1.Status{}})
			s.dropAll()
		}, 2, []string{"stream ", "stream "}},
	}
	for _, test := range tests {
		for _, how := range []struct {
			name, media string
			piece       int
		}{
			{"protobuf", runtime.ContentTypeProtobuf, 1 << 20},
			{"protobuf by bytes", runtime.ContentTypeProtobuf, 1},
			{"JSON", runtime.ContentTypeJSON, 1 << 20},
			{"JSON by bytes", runtime.ContentTypeJSON, 1},
		} {
			t.Run(test.name+", "+how.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer()
					s.media, s.piece = how.media, how.piece
					fill(s)
					if test.setUp != nil {
						test.setUp(s)
					}
					k, _ := start(t, s, true)
					if test.fault != nil {
						expectEqual(t, k, s)
						test.fault(s)
					}
					s.put("object-7", true)
					advance(time.Minute)
					expectEqual(t, k, s)
					s.put("object-8", false)
					expectEqual(t, k, s)
					if int(k.completed.Load()) != test.lists {
						t.Errorf("%d lists were complete, want %d: %q", k.completed.Load(), test.lists, s.calls)
					}
					if test.calls != nil && !slices.Equal(s.calls, test.calls) {
						t.Errorf("calls %q, want %q", s.calls, test.calls)
					}
				})
			})
		}
	}
}

// prefetchSource is a source whose first page blocks until the second one is requested.
type prefetchSource struct {
	Source
	second chan struct{}
}

func (p *prefetchSource) List(ctx context.Context, opts metav1.ListOptions) (*wire.Page, error) {
	if opts.Continue != "" {
		close(p.second)
		<-ctx.Done() // until the request is cancelled
		return nil, ctx.Err()
	}
	return &wire.Page{Version: "1", Next: "second", Objects: func(yield func(client.Object, error) bool) {
		if !yield(bookmark(1), nil) {
			return
		}
		<-p.second
		yield(nil, errors.New("an object cannot be decoded"))
	}}, nil
}

// The next page is requested while the objects of the last one are decoded. The request is
// cancelled if they cannot be decoded.
func TestPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var reported error
		r := &Reflector{
			Source: &prefetchSource{second: make(chan struct{})}, Sink: &sink{Scope: store.New(store.ShareAsked).Scope("")},
			OnError: func(_ context.Context, err error) { reported = err; cancel() },
		}
		r.Run(ctx)
		if reported == nil || reported.Error() != "an object cannot be decoded" {
			t.Error(reported)
		}
	})
}

// A server that fails permanently is retried with exponential back-off.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for range 1000 {
			s.watchErr = append(s.watchErr, apierrors.NewNotFound(schema.GroupResource{}, ""))
		}
		_, errs := start(t, s, true)
		advance(time.Hour)
		if n := len(*errs); n < 60 || n > 300 {
			t.Errorf("%d attempts in an hour", n)
		}
	})
}

// A server on which every watch expires at once is not listed in a tight loop.
func TestBackOffOfExpiredWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for range 1000 {
			s.watchErr = append(s.watchErr, nil, apierrors.NewResourceExpired(""))
		}
		s.streams = false
		k, _ := start(t, s, false)
		advance(time.Hour)
		if k.completed.Load() > 300 {
			t.Errorf("%d lists in an hour", k.completed.Load())
		}
	})
}

// The Retry-After of a response is respected.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.watchErr = []error{apierrors.NewTooManyRequests("later", 120)}
		k, _ := start(t, s, true)
		advance(119 * time.Second)
		if k.completed.Load() != 0 {
			t.Error("retried too early")
		}
		advance(time.Minute)
		expectEqual(t, k, s)
		if k.completed.Load() != 1 {
			t.Error("no list")
		}
	})
}

// A connection that is dead without an error times out.
func TestDeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		fill(s)
		k, _ := start(t, s, true)
		s.set(func() { s.watchers = nil })
		s.put("missed", true)
		advance(maxWatchTimeout + time.Minute)
		expectEqual(t, k, s)
	})
}

// After many random writes and faults the sink holds the server's objects.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			s := newServer()
			s.streams = r.IntN(2) == 0
			s.media = []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}[r.IntN(2)]
			s.piece = 1 + r.IntN(300)
			k, _ := start(t, s, r.IntN(2) == 0)
			for range 400 {
				switch r.IntN(30) {
				case 0:
					s.dropAll()
				case 1:
					s.compact()
				case 2:
					s.send(failure(apierrors.NewResourceExpired("")))
				case 3:
					s.set(func() { s.watchErr = append(s.watchErr, apierrors.NewInternalError(errors.New("no"))) })
				case 4:
					s.set(func() { s.listErr = append(s.listErr, nil, apierrors.NewResourceExpired("")) })
				case 5:
					s.send(apiwatch.Event{Type: apiwatch.Bookmark, Object: bookmark(s.version)})
				case 6:
					time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
				case 7:
					synctest.Wait()
				default:
					s.put(fmt.Sprint("object-", r.IntN(20)), r.IntN(3) > 0)
				}
			}
			s.set(func() { s.listErr, s.watchErr = nil, nil })
			advance(2 * time.Minute)
			expectEqual(t, k, s)
		})
	}
}
