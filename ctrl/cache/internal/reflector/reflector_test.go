package reflector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a server of one kind that can be told to fail. It implements Source.
type server struct {
	mu       sync.Mutex
	version  int
	objects  map[string]*corev1.ConfigMap
	events   []apiwatch.Event
	first    int // the version from which watches can begin
	watchers []*watcher
	calls    []string

	streams  bool
	page     int
	listErr  []error // for the next calls of List
	watchErr []error // for the next calls of Watch
	mute     bool    // streaming lists do not end
}

func newServer() *server {
	return &server{version: 1, objects: map[string]*corev1.ConfigMap{}, streams: true, page: 3}
}

type watcher struct {
	ch     chan apiwatch.Event
	stop   func()
	closed chan struct{}
}

func (w *watcher) Stop()                             { w.stop() }
func (w *watcher) ResultChan() <-chan apiwatch.Event { return w.ch }

func (s *server) List(_ context.Context, opts metav1.ListOptions) ([]client.Object, string, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, "list "+opts.Continue)
	if err := take(&s.listErr); err != nil {
		return nil, "", "", err
	}
	names := slices.Sorted(maps.Keys(s.objects))
	version, from := s.version, ""
	if opts.Continue != "" {
		fmt.Sscanf(opts.Continue, "%d/%s", &version, &from)
		if version < s.first {
			return nil, "", "", apierrors.NewResourceExpired("the page is gone")
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name < from })
	}
	next := ""
	if len(names) > s.page {
		next = fmt.Sprintf("%d/%s", version, names[s.page])
		names = names[:s.page]
	}
	var objs []client.Object
	for _, name := range names {
		objs = append(objs, s.objects[name].DeepCopy())
	}
	return objs, strconv.Itoa(version), next, nil
}

func (s *server) Watch(ctx context.Context, opts metav1.ListOptions) (apiwatch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := "watch"
	if opts.SendInitialEvents != nil {
		call = "stream"
	}
	s.calls = append(s.calls, call+" "+opts.ResourceVersion)
	if err := take(&s.watchErr); err != nil {
		return nil, err
	}
	w := &watcher{ch: make(chan apiwatch.Event, 10000), closed: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.closed) })
	context.AfterFunc(ctx, w.stop)
	if call == "stream" {
		if !s.streams {
			return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
		}
		for _, name := range slices.Sorted(maps.Keys(s.objects)) {
			w.ch <- apiwatch.Event{Type: apiwatch.Added, Object: s.objects[name].DeepCopy()}
		}
		if !s.mute {
			end := bookmark(s.version)
			end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			w.ch <- apiwatch.Event{Type: apiwatch.Bookmark, Object: end}
		}
	} else {
		from, _ := strconv.Atoi(opts.ResourceVersion)
		if from < s.first {
			w.ch <- failure(apierrors.NewResourceExpired("too old"))
			close(w.ch)
			return w, nil
		}
		for _, e := range s.events {
			if v, _ := store.Version(e.Object.(client.Object)); int(v) > from {
				w.ch <- e
			}
		}
	}
	s.watchers = append(s.watchers, w)
	go func() { <-w.closed; s.drop(w) }()
	return w, nil
}

// set changes the server.
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

// send sends an event that is no part of the history.
func (s *server) send(e apiwatch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		w.ch <- e
	}
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
		w.ch <- apiwatch.Event{Type: e.Type, Object: obj.DeepCopy()}
	}
}

// forget makes all but the newest version too old to watch or page from.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = s.version
}

// sink stores what it is told.
type sink struct {
	*store.Scope
	store     *store.Store
	completed atomic.Int32
}

func (s *sink) Listed(obj client.Object)  { s.Scope.Listed(obj) }
func (s *sink) Changed(obj client.Object) { s.Scope.Changed(obj) }
func (s *sink) Deleted(obj client.Object) { s.Scope.Deleted(obj) }
func (s *sink) Complete(version string)   { s.Scope.Complete(version); s.completed.Add(1) }

// start runs a reflector of a server until the test ends.
func start(t *testing.T, s *server, bookmarks bool) (*sink, *[]error) {
	st := store.New(store.ShareAsked)
	k := &sink{Scope: st.Scope(""), store: st}
	var errs []error
	r := &Reflector{Source: s, Sink: k, Bookmarks: bookmarks, OnError: func(_ context.Context, err error) { errs = append(errs, err) }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return k, &errs
}

// agree fails the test unless the sink holds what the server holds.
func agree(t *testing.T, k *sink, s *server) {
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
}

// pause lets time pass until everything has come to rest.
func pause(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func fill(s *server) {
	for i := range 10 {
		s.put(fmt.Sprint("object-", i), true)
	}
}

func TestFollows(t *testing.T) {
	for _, streams := range []bool{true, false} {
		for _, bookmarks := range []bool{true, false} {
			t.Run(fmt.Sprintf("streams=%v bookmarks=%v", streams, bookmarks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer()
					s.streams = streams
					fill(s)
					k, errs := start(t, s, bookmarks)
					agree(t, k, s)
					s.put("object-3", true)
					s.put("object-4", false)
					s.put("more", true)
					agree(t, k, s)
					if k.completed.Load() != 1 || len(*errs) != 0 {
						t.Errorf("%d lists, errors %v", k.completed.Load(), *errs)
					}
				})
			})
		}
	}
}

// A fault in each state heals without a restart of anything else.
func TestFaults(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	refused := errors.New("connection refused")
	garbage := apiwatch.Event{
		Type:   apiwatch.Error,
		Object: apierrors.NewClientErrorReporter(500, "GET", "ClientWatchDecoding").AsObject(errors.New("garbage")),
	}
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
		{"a streaming list never ends", func(s *server) { s.mute = true }, nil,
			1, []string{"stream ", "list ", "list 12/object-3", "list 12/object-6", "list 12/object-9", "watch 12"}},
		{"the watch is refused", func(s *server) { s.streams = false; s.watchErr = []error{nil, refused, refused} }, nil,
			1, nil},
		{"the watch expires at once", func(s *server) { s.streams = false; s.watchErr = []error{nil, expired} }, nil,
			2, nil},
		{"the connection drops", nil, (*server).dropAll,
			1, []string{"stream ", "watch 11"}},
		{"the watch expires", nil, func(s *server) { s.send(failure(expired)); s.dropAll() },
			2, []string{"stream ", "stream "}},
		{"garbage", nil, func(s *server) { s.send(garbage); s.dropAll() },
			2, []string{"stream ", "stream "}},
		{"an unexpected error", nil, func(s *server) {
			s.send(failure(apierrors.NewInternalError(refused)))
			s.dropAll()
		}, 1, []string{"stream ", "watch 11"}},
		{"the history is gone meanwhile", nil, func(s *server) { s.dropAll(); s.put("object-1", false); s.forget() },
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
		{"an object that is none", nil, func(s *server) {
			s.send(apiwatch.Event{Type: apiwatch.Added, Object: &metav1.Status{}})
			s.dropAll()
		}, 2, []string{"stream ", "stream "}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				fill(s)
				if test.setUp != nil {
					test.setUp(s)
				}
				k, _ := start(t, s, true)
				if test.fault != nil {
					agree(t, k, s)
					test.fault(s)
				}
				s.put("object-7", true)
				pause(time.Minute)
				agree(t, k, s)
				s.put("object-8", false)
				agree(t, k, s)
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

// A server that fails for good is asked less and less often.
func TestBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for range 1000 {
			s.watchErr = append(s.watchErr, apierrors.NewNotFound(schema.GroupResource{}, ""))
		}
		_, errs := start(t, s, true)
		pause(time.Hour)
		if n := len(*errs); n < 60 || n > 300 {
			t.Errorf("%d attempts in an hour", n)
		}
	})
}

// A server that expires every watch at once must not be listed in a tight loop.
func TestExpiryAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for range 1000 {
			s.watchErr = append(s.watchErr, nil, apierrors.NewResourceExpired(""))
		}
		s.streams = false
		k, _ := start(t, s, false)
		pause(time.Hour)
		if k.completed.Load() > 300 {
			t.Errorf("%d lists in an hour", k.completed.Load())
		}
	})
}

// The server's wish for a pause is heeded.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.watchErr = []error{apierrors.NewTooManyRequests("later", 120)}
		k, _ := start(t, s, true)
		pause(119 * time.Second)
		if k.completed.Load() != 0 {
			t.Error("the server was asked too early")
		}
		pause(time.Minute)
		agree(t, k, s)
		if k.completed.Load() != 1 {
			t.Error("no list")
		}
	})
}

// A connection that died without a sign is given up.
func TestDeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		fill(s)
		k, _ := start(t, s, true)
		var dead []*watcher
		s.set(func() { dead, s.watchers = s.watchers, nil })
		go func() { <-dead[0].closed; close(dead[0].ch) }()
		s.put("unheard", true)
		pause(watchAtMost + time.Minute)
		agree(t, k, s)
	})
}

// Random writes and faults, many of them; in the end all agree.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			s := newServer()
			s.streams = r.IntN(2) == 0
			k, _ := start(t, s, r.IntN(2) == 0)
			for range 400 {
				switch r.IntN(30) {
				case 0:
					s.dropAll()
				case 1:
					s.forget()
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
			pause(2 * time.Minute)
			agree(t, k, s)
		})
	}
}
