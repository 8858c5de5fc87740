package endpoints

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/resource"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// watchFixture is a server with two pods: one written before the watches, and one after them.
type watchFixture struct {
	t       *testing.T
	backend storage.Store
	pods    *resource.Resource
}

func newWatchFixture(t *testing.T) *watchFixture {
	backend := memory.New(memory.Options{})
	t.Cleanup(func() { backend.Close() })
	f := &watchFixture{t, backend, podsIn(t, backend)}
	f.create("a", "yes", "n1") // revision 2
	f.create("b", "no", "n2")  // 3
	return f
}

func (f *watchFixture) ctx() context.Context {
	return request.WithNamespace(f.t.Context(), "default")
}

// create creates a pod with a label and a node.
func (f *watchFixture) create(name, on, node string) {
	f.t.Helper()
	manifest := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"default","labels":{"on":"` + on +
		`"}},"spec":{"nodeName":"` + node + `","containers":[{"name":"c","image":"i"}]}}`
	pod, err := runtime.Decode(builtin.Codecs().UniversalDecoder(corev1.SchemeGroupVersion), []byte(manifest))
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.pods.Storage.(rest.Creater).Create(f.ctx(), pod, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// label changes the label of a pod.
func (f *watchFixture) label(name, on string) {
	f.t.Helper()
	change := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		pod := old.DeepCopyObject().(*corev1.Pod)
		pod.Labels = map[string]string{"on": on}
		return pod, nil
	}
	_, _, err := f.pods.Storage.(rest.Updater).Update(f.ctx(), name, rest.DefaultUpdatedObjectInfo(nil, change),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *watchFixture) delete(name string) {
	f.t.Helper()
	_, _, err := f.pods.Storage.(rest.GracefulDeleter).Delete(f.ctx(), name, rest.ValidateAllObjectFunc, metav1.NewDeleteOptions(0))
	if err != nil {
		f.t.Fatal(err)
	}
}

// writes are the writes while the watches are open.
func (f *watchFixture) writes() {
	f.create("c", "yes", "n1")
	f.label("a", "no")
	f.label("b", "yes")
	f.label("a", "yes")
	f.delete("a")
	f.delete("b")
}

// watchRequest is a request for a watch.
type watchRequest struct {
	name, query, path, accept, encoding string
	compacted                           bool // the history before the watch is gone
	corrupt                             bool // one of the pods is
	silent                              bool // there are no events
	fallback                            bool
}

func (w watchRequest) request(ctx context.Context) *http.Request {
	path := "/api/v1/namespaces/default/pods"
	if w.path != "" {
		path = w.path
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path+"?"+w.query, nil)
	r.Header.Set("Accept", w.accept)
	if w.encoding != "" {
		r.Header.Set("Accept-Encoding", w.encoding)
	}
	info := &request.RequestInfo{IsResourceRequest: true, Path: path, Verb: "watch", APIVersion: "v1", Resource: "pods", Namespace: "default",
		Parts: []string{"pods"}}
	if w.path != "" {
		info.Name = "b"
		info.Parts = []string{"pods", "b"}
	}
	return r.WithContext(request.WithReceivedTimestamp(request.WithRequestInfo(ctx, info), time.Now()))
}

// TestWatchesAsUpstream compares watches on the fast path with the handler of k8s.io/apiserver, byte for byte.
func TestWatchesAsUpstream(t *testing.T) {
	const (
		json, protobuf = "application/json", "application/vnd.kubernetes.protobuf"
		list           = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	)
	for _, test := range []watchRequest{
		{name: "now", query: "watch=true&timeoutSeconds=9", accept: json},
		{name: "protobuf", query: "watch=1&timeoutSeconds=9", accept: protobuf},
		{name: "the preferred format", query: "watch=1&timeoutSeconds=9", accept: "application/yaml;q=0.1, " + protobuf + ", " + json},
		{name: "pretty", query: "watch=1&timeoutSeconds=9&pretty=true", accept: json},
		{name: "since", query: "watch=true&resourceVersion=2&timeoutSeconds=9", accept: json},
		{name: "by label", query: "watch=true&labelSelector=on%3Dyes&timeoutSeconds=9", accept: protobuf},
		{name: "by field", query: "watch=true&fieldSelector=spec.nodeName%3Dn2&timeoutSeconds=9", accept: json},
		{name: "by name", query: "watch=true&fieldSelector=metadata.name%3Da&timeoutSeconds=9", accept: json},
		{name: "one", query: "watch=true&timeoutSeconds=9", path: "/api/v1/namespaces/default/pods/b", accept: json},
		{name: "one, and its name", query: "watch=true&timeoutSeconds=9&fieldSelector=metadata.name%3Db", path: "/api/v1/namespaces/default/pods/b", accept: json},
		{name: "bookmarks", query: "watch=true&allowWatchBookmarks=true&timeoutSeconds=150", accept: json},
		{name: "bookmarks as protobuf", query: "watch=true&allowWatchBookmarks=true&timeoutSeconds=150", accept: protobuf},
		{name: "streaming list", query: "watch=true&timeoutSeconds=9&" + list, accept: json},
		{name: "streaming list as protobuf", query: "watch=true&timeoutSeconds=9&resourceVersion=2&" + list, accept: protobuf},
		{name: "compression of anything else", query: "watch=true&timeoutSeconds=9", accept: json, encoding: "gzip"},
		{name: "too old", query: "watch=true&resourceVersion=2&timeoutSeconds=9", accept: json, compacted: true},
		{name: "too old, protobuf", query: "watch=true&resourceVersion=2&timeoutSeconds=9", accept: protobuf, compacted: true},
		{name: "not yet", query: "watch=true&resourceVersion=99&timeoutSeconds=9", accept: json, silent: true},
		{name: "no version", query: "watch=true&resourceVersion=x", accept: json},
		{name: "compressed streaming list", query: "watch=true&timeoutSeconds=9&" + list, accept: json, encoding: "gzip"},
		{name: "compressed streaming list as protobuf", query: "watch=true&timeoutSeconds=9&" + list, accept: protobuf, encoding: "br, gzip"},

		{name: "streaming list of a corrupt pod", query: "watch=true&timeoutSeconds=9&" + list, accept: json, corrupt: true},
		{name: "streaming list of a corrupt pod as protobuf", query: "watch=true&timeoutSeconds=9&" + list, accept: protobuf, encoding: "gzip", corrupt: true},

		{name: "table", query: "watch=true&timeoutSeconds=9", accept: "application/json;as=Table;g=meta.k8s.io;v=v1", fallback: true},
		{name: "metadata", query: "watch=true&timeoutSeconds=9", accept: protobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", fallback: true},
		{name: "no format", query: "watch=true", accept: "text/plain", fallback: true},
		{name: "no selector", query: "watch=true&labelSelector=%25%25", accept: json, fallback: true},
		{name: "no field", query: "watch=true&fieldSelector=spec.nothing%3Dx", accept: json, fallback: true},
		{name: "another name", query: "watch=true&fieldSelector=metadata.name%3Da", path: "/api/v1/namespaces/default/pods/b", accept: json, fallback: true},
		{name: "no match", query: "watch=true&sendInitialEvents=true", accept: json, fallback: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { compareWatches(t, test) })
		})
	}
}

// compareWatches has a watch served by both.
func compareWatches(t *testing.T, test watchRequest) {
	f := newWatchFixture(t)
	if test.compacted {
		if err := f.backend.Compact(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
	}
	if test.corrupt {
		write := storage.Write{Key: "/registry/pods/default/aa", Value: []byte("k8s\x00?"), If: storage.Absent}
		if _, err := f.backend.Put(t.Context(), write); err != nil {
			t.Fatal(err)
		}
	}
	lister, watcher := f.pods.Storage.(rest.Lister), f.pods.Storage.(rest.Watcher)
	upstream := handlers.ListResource(lister, watcher, f.pods.Scope, false, minWatch)
	left := false
	own := &watches{storage: watcher, scope: f.pods.Scope, upstream: func(w http.ResponseWriter, r *http.Request) {
		left = true
		upstream(w, r)
	}}
	answers := [2]*httptest.ResponseRecorder{httptest.NewRecorder(), httptest.NewRecorder()}
	done := make(chan struct{})
	for i, serve := range []http.HandlerFunc{upstream, own.serve} {
		go func() {
			serve(answers[i], test.request(t.Context()))
			done <- struct{}{}
		}()
	}
	synctest.Wait()
	f.writes()
	<-done
	<-done
	want, got := answers[0], answers[1]
	if left != test.fallback {
		t.Errorf("left to upstream: %v", left)
	}
	sent := want.Body.Len()
	if want.Code != got.Code || want.Flushed != got.Flushed {
		t.Errorf("status %d, flushed %v; want %d, %v", got.Code, got.Flushed, want.Code, want.Flushed)
	}
	if d := cmp.Diff(want.Result().Header, got.Result().Header); d != "" {
		t.Errorf("header (-upstream +own):\n%s", d)
	}
	if test.fallback && want.Code == http.StatusOK {
		return // the headers of tables, and when events are compressed, depend on the timing
	}
	if d := cmp.Diff(body(t, want), body(t, got)); d != "" {
		t.Errorf("body (-upstream +own):\n%s", d)
	}
	if events := sent > 0; events == test.silent {
		t.Errorf("events: %v", events)
	}
}

// body returns the body of a response, decompressed. How often a compressed response is flushed depends on the timing.
func body(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var from io.Reader = w.Body
	if w.Header().Get("Content-Encoding") == "gzip" {
		var err error
		if from, err = gzip.NewReader(w.Body); err != nil {
			t.Fatal(err)
		}
	}
	all, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// TestWatchesInTwoFormats: an event is encoded once for all watches of a format, and not for the others.
func TestWatchesInTwoFormats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWatchFixture(t)
		lister, watcher := f.pods.Storage.(rest.Lister), f.pods.Storage.(rest.Watcher)
		upstream := handlers.ListResource(lister, watcher, f.pods.Scope, false, minWatch)
		own := watchHandler(watcher, f.pods.Scope, false, nil)
		formats := []string{"application/json", "application/vnd.kubernetes.protobuf"}
		want, got := map[string]*httptest.ResponseRecorder{}, map[string]*httptest.ResponseRecorder{}
		var running sync.WaitGroup
		for _, accept := range formats {
			theirs, ours := httptest.NewRecorder(), httptest.NewRecorder()
			want[accept], got[accept] = theirs, ours
			test := watchRequest{query: "watch=true&timeoutSeconds=9", accept: accept}
			running.Go(func() { upstream(theirs, test.request(t.Context())) })
			running.Go(func() { own(ours, test.request(t.Context())) })
		}
		synctest.Wait()
		f.writes()
		running.Wait()
		for _, accept := range formats {
			if d := cmp.Diff(want[accept].Body.String(), got[accept].Body.String()); d != "" || want[accept].Body.Len() == 0 {
				t.Errorf("%s (-upstream +own):\n%s", accept, d)
			}
		}
	})
}

// pausedResponse is the response of a client that does not read for a while.
type pausedResponse struct {
	*httptest.ResponseRecorder
	paused bool
	resume <-chan struct{}
}

func (w *pausedResponse) Write(b []byte) (int, error) {
	w.paused = true
	<-w.resume
	return w.ResponseRecorder.Write(b)
}

// TestPausedWatchesAsUpstream compares watches with clients that do not read while the initial events are sent, and until other pods and
// the history are written: the initial events have the objects at the beginning, and what came afterwards follows.
func TestPausedWatchesAsUpstream(t *testing.T) {
	const list = "watch=true&timeoutSeconds=9&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	for _, test := range []watchRequest{
		{name: "JSON", query: list, accept: "application/json"},
		{name: "protobuf", query: list, accept: "application/vnd.kubernetes.protobuf"},
		{name: "by label", query: list + "&labelSelector=on%3Dyes", accept: "application/json"},
		{name: "compressed", query: list, accept: "application/json", encoding: "gzip"},
		{name: "compacted", query: list, accept: "application/json", compacted: true},
		{name: "compacted, without a bookmark", query: "watch=true&timeoutSeconds=9", accept: "application/vnd.kubernetes.protobuf", compacted: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { comparePaused(t, test) })
		})
	}
}

// comparePaused has a watch served by both, for clients that are paused.
func comparePaused(t *testing.T, test watchRequest) {
	f := newWatchFixture(t)
	for i := range 500 { // more than a buffer of each format
		f.create(fmt.Sprintf("between-%03d", i), []string{"yes", "no"}[i%2], "n1")
	}
	lister, watcher := f.pods.Storage.(rest.Lister), f.pods.Storage.(rest.Watcher)
	resume := make(chan struct{})
	var answers [2]*pausedResponse
	var running sync.WaitGroup
	for i, serve := range []http.HandlerFunc{handlers.ListResource(lister, watcher, f.pods.Scope, false, minWatch), watchHandler(watcher, f.pods.Scope, false, nil)} {
		answers[i] = &pausedResponse{httptest.NewRecorder(), false, resume}
		running.Go(func() { serve(answers[i], test.request(t.Context())) })
	}
	synctest.Wait()
	want, got := answers[0], answers[1]
	if !want.paused || !got.paused {
		t.Fatal("the initial events are no more than a buffer")
	}
	f.writes()
	f.delete("between-499")
	f.label("between-498", "no")
	if test.compacted {
		latest, _, err := f.backend.Revisions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := f.backend.Compact(t.Context(), latest); err != nil {
			t.Fatal(err)
		}
	}
	close(resume)
	running.Wait()
	if d := cmp.Diff(body(t, want.ResponseRecorder), body(t, got.ResponseRecorder)); d != "" {
		t.Errorf("body (-upstream +own):\n%s", d)
	}
}

// pipedResponse is the response of a client that reads it while it is written.
type pipedResponse struct {
	*httptest.ResponseRecorder
	body io.Writer
}

func (w pipedResponse) Write(b []byte) (int, error) { return w.body.Write(b) }

// TestCompressedEventsArrive: a client has all compressed events that were sent, although the stream goes on and no event follows.
func TestCompressedEventsArrive(t *testing.T) {
	for _, list := range []string{"", "&labelSelector=on%3Dnever"} { // with and without objects
		synctest.Test(t, func(t *testing.T) {
			f := newWatchFixture(t)
			test := watchRequest{query: "watch=true&timeoutSeconds=9&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true" + list,
				accept: "application/json", encoding: "gzip"}
			in, out := io.Pipe()
			var running sync.WaitGroup
			running.Go(func() {
				watchHandler(f.pods.Storage.(rest.Watcher), f.pods.Scope, false, nil)(pipedResponse{httptest.NewRecorder(), out}, test.request(t.Context()))
				out.Close()
			})
			var last atomic.Value
			running.Go(func() {
				from, err := gzip.NewReader(in)
				if err != nil {
					t.Error(err)
					return
				}
				for events := bufio.NewScanner(from); events.Scan(); {
					last.Store(events.Text())
				}
			})
			synctest.Wait()
			if event, _ := last.Load().(string); !strings.Contains(event, metav1.InitialEventsAnnotationKey) {
				t.Errorf("the last event is %q, want the bookmark", event)
			}
			f.create("later", "never", "n1")
			synctest.Wait()
			if event, _ := last.Load().(string); !strings.Contains(event, "later") {
				t.Errorf("the last event is %q, want the new pod", event)
			}
			running.Wait()
		})
	}
}

// slowResponse is the response of a client that does not read, and then disconnects.
type slowResponse struct {
	http.ResponseWriter
	unblock chan struct{}
	blocked bool
}

var errDisconnected = errors.New("client disconnected")

func (w *slowResponse) Write(b []byte) (int, error) {
	w.blocked = true
	<-w.unblock
	return 0, errDisconnected
}

func (w *slowResponse) Flush() {}

// TestWatchOfASlowClient has a client that does not read: writers do not wait for it, and the watch
// ends when the client disconnects.
func TestWatchOfASlowClient(t *testing.T) {
	for name, query := range map[string]string{"events": "watch=true&resourceVersion=3", "initial events": "watch=true"} {
		t.Run(name, func(t *testing.T) { slowWatch(t, query) })
	}
}

func slowWatch(t *testing.T, query string) {
	synctest.Test(t, func(t *testing.T) {
		f := newWatchFixture(t)
		serve := watchHandler(f.pods.Storage.(rest.Watcher), f.pods.Scope, false, nil)
		w := &slowResponse{ResponseWriter: httptest.NewRecorder(), unblock: make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			serve(w, watchRequest{query: query, accept: "application/json"}.request(t.Context()))
		}()
		f.writes()
		synctest.Wait()
		if !w.blocked {
			t.Fatal("nothing is sent")
		}
		close(w.unblock)
		<-done
	})
}

// TestWatchEndsWithItsContext tests the ends of a watch without events: the end of the request, and the timeout.
func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWatchFixture(t)
		serve := watchHandler(f.pods.Storage.(rest.Watcher), f.pods.Scope, true, nil)
		r := watchRequest{query: "resourceVersion=3", accept: "application/json"}
		ctx, cancel := context.WithCancel(t.Context())
		done, began := make(chan struct{}), time.Now()
		go func() {
			serve(httptest.NewRecorder(), r.request(ctx))
			close(done)
		}()
		synctest.Wait()
		cancel()
		<-done
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the watch ended %v after its request", waited)
		}
		serve(httptest.NewRecorder(), r.request(t.Context()))
		if waited := time.Since(began); waited < minWatch || waited >= 2*minWatch {
			t.Errorf("the watch ended after %v", waited)
		}
	})
}
