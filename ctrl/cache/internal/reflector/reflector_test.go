package reflector

import (
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
	"flyball.dev/ctrl/internal/fakeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server serves config maps, and fails the next lists and watches with these errors.
type server struct {
	*fakeapi.Server
	mu                sync.Mutex
	calls             []string
	listErr, watchErr []error
}

func newServer() *server {
	s := &server{Server: fakeapi.New(corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	s.Media, s.PageSize, s.ReadSize = runtime.ContentTypeProtobuf, 3, 1000
	s.Respond = func(r fakeapi.Request) (*http.Response, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		q, _ := url.ParseQuery(r.Query)
		switch {
		case q.Get("sendInitialEvents") != "":
			s.calls = append(s.calls, "stream "+q.Get("resourceVersion"))
		case q.Get("watch") != "":
			s.calls = append(s.calls, "watch "+q.Get("resourceVersion"))
		default:
			call := "list " + q.Get("continue")
			if q.Get("continue") == "" {
				call = fmt.Sprintf("list from %s limit %s", q.Get("resourceVersion"), q.Get("limit"))
			}
			s.calls = append(s.calls, call)
			return nil, take(&s.listErr)
		}
		return nil, take(&s.watchErr)
	}
	return s
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

// put writes an object, or deletes it.
func (s *server) put(name string, exists bool) {
	if !exists {
		s.Delete("configmaps", "", name)
		return
	}
	s.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// expire makes all versions but the latest too old to watch or page from.
func (s *server) expire() { s.Do(func() { s.Oldest = s.Version }) }

// object returns one of the objects.
func (s *server) object(name string) *corev1.ConfigMap {
	for _, obj := range s.Objects("configmaps") {
		if obj.GetName() == name {
			return obj.(*corev1.ConfigMap)
		}
	}
	panic("no object " + name)
}

// sink passes objects to a store.
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
	st := store.New(store.ShareOnDemand)
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
	got := map[string]string{}
	for _, n := range k.store.Watched() {
		got[n.Key.Name] = n.Object().GetResourceVersion()
	}
	want := map[string]string{}
	for _, obj := range s.Objects("configmaps") {
		want[obj.GetName()] = obj.GetResourceVersion()
	}
	if !maps.Equal(got, want) {
		t.Fatalf("got %v, want %v after %v", got, want, s.calls)
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
					s.NoWatchList = !streams
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
	tooLarge := apierrors.NewTimeoutError("Too large resource version: 11, current: 10", 1)
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
		{"a page expires", func(s *server) { s.NoWatchList = true; s.listErr = []error{nil, expired} }, nil,
			1, []string{"stream ", "list from 0 limit 500", "list 11/object-3", "list from 0 limit ", "list 11/object-3", "list 11/object-6", "list 11/object-9", "watch 11"}},
		{"a page fails", func(s *server) { s.NoWatchList = true; s.listErr = []error{nil, nil, refused} }, nil,
			1, []string{"stream ", "list from 0 limit 500", "list 11/object-3", "list 11/object-6", "list from 0 limit 500", "list 12/object-3", "list 12/object-6", "list 12/object-9", "watch 12"}},
		{"the watch cache is behind", func(s *server) {
			s.NoWatchList, s.PageSize = true, 0
			s.listErr = []error{tooLarge}
		}, nil,
			1, []string{"stream ", "list from 0 limit 500", "list from  limit 500", "watch 11"}},
		{"the version of an old list is not there", func(s *server) {
			s.NoWatchList, s.PageSize = true, 0
			s.listErr = []error{nil, tooLarge}
			s.watchErr = []error{nil, expired}
		}, nil,
			2, []string{"stream ", "list from 0 limit 500", "watch 11", "list from 11 limit ", "list from  limit 500", "watch 12"}},
		{"the history expires, without watch lists", func(s *server) {
			s.NoWatchList, s.PageSize = true, 0
			s.watchErr = []error{nil, expired}
		}, nil,
			2, []string{"stream ", "list from 0 limit 500", "watch 11", "list from 11 limit ", "watch 12"}},
		{"a watch list never ends", func(s *server) { s.NoInitialEventsEnd = true }, nil,
			1, []string{"stream ", "list from 0 limit 500", "list 12/object-3", "list 12/object-6", "list 12/object-9", "watch 12"}},
		{"the watch is refused", func(s *server) { s.NoWatchList = true; s.watchErr = []error{nil, refused, refused} }, nil,
			1, nil},
		{"the watch expires at once", func(s *server) { s.NoWatchList = true; s.watchErr = []error{nil, expired} }, nil,
			2, nil},
		{"the connection drops", nil, func(s *server) { s.Break(io.EOF) },
			1, []string{"stream ", "watch 11"}},
		{"the watch expires", nil, func(s *server) { s.EndWith(expired) },
			2, []string{"stream ", "stream "}},
		{"invalid bytes", nil, func(s *server) { s.Send([]byte("<html>")) },
			2, []string{"stream ", "stream "}},
		{"an empty frame", nil, func(s *server) { s.Send([]byte{0, 0, 0, 0}) },
			2, []string{"stream ", "stream "}},
		{"an unknown event type", nil, func(s *server) {
			s.SendEvent("PEACE", bookmark(11))
		}, 2, []string{"stream ", "stream "}},
		{"an object that cannot be decoded", nil, func(s *server) {
			broken := `{"apiVersion":"v1","kind":"ConfigMap","metadata":7}`
			if s.Media == runtime.ContentTypeProtobuf {
				broken = "k8s\x00" + broken
			}
			s.Send(s.RawFrame(apiwatch.Modified, []byte(broken)))
		}, 2, []string{"stream ", "stream "}},
		{"a cut in the middle of a frame", nil, func(s *server) {
			event := s.Frame(apiwatch.Event{Type: apiwatch.Modified, Object: s.object("object-2")})
			s.Send(event[:len(event)-3])
			s.Break(io.EOF)
		}, 1, []string{"stream ", "watch 11"}},
		{"the connection fails", nil, func(s *server) { s.Break(errors.New("stream error: stream ID 7; INTERNAL_ERROR")) },
			1, []string{"stream ", "watch 11"}},
		{"many events at once", nil, func(s *server) {
			events := make([]fakeapi.Object, 2000)
			for i := range events {
				events[i] = s.object("object-2")
			}
			s.Put(events...)
			s.Break(io.EOF)
		}, 1, []string{"stream ", "watch 2011"}},
		{"an unexpected error", nil, func(s *server) {
			s.EndWith(apierrors.NewInternalError(refused))
		}, 1, []string{"stream ", "watch 11"}},
		{"the history expires meanwhile", nil, func(s *server) { s.Break(io.EOF); s.put("object-1", false); s.expire() },
			2, []string{"stream ", "watch 11", "stream "}},
		{"duplicate events", nil, func(s *server) {
			s.SendEvent(apiwatch.Modified, s.object("object-2"))
		}, 1, []string{"stream "}},
		{"stale events", nil, func(s *server) {
			stale := s.object("object-2")
			s.put("object-2", true)
			s.SendEvent(apiwatch.Modified, stale)
			s.SendEvent(apiwatch.Deleted, stale)
		}, 1, []string{"stream "}},
		{"only bookmarks, then a drop", nil, func(s *server) {
			s.Do(func() { s.Version = 50 })
			s.SendEvent(apiwatch.Bookmark, bookmark(50))
			synctest.Wait()
			s.Break(io.EOF)
		}, 1, []string{"stream ", "watch 50"}},
		{"an event without an object", nil, func(s *server) {
			s.SendEvent(apiwatch.Added, &metav1.Status{})
			s.Break(io.EOF)
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
					s.Media, s.ReadSize = how.media, how.piece
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

// prefetchSource is a source. Its first page blocks until the second one is requested.
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
			Source: &prefetchSource{second: make(chan struct{})}, Sink: &sink{Scope: store.New(store.ShareOnDemand).Scope("")},
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

// A server that discards its history all the time is not listed all the time.
func TestBackOffOfExpiredWatches(t *testing.T) {
	for _, test := range []struct {
		name string
		// open is how long each watch is open before it expires.
		open time.Duration
		// event is set if each watch delivers an event before.
		event bool
		lists int32
	}{
		{"at once", 0, false, 300},
		{"soon", 200 * time.Millisecond, false, 300},
		{"after an event", 0, true, 3601},
	} {
		for _, bookmarks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, watch lists: %v", test.name, bookmarks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer()
					k, _ := start(t, s, bookmarks)
					lists := int32(0)
					for begun := time.Now(); time.Since(begun) < time.Hour; advance(100 * time.Millisecond) {
						if n := k.completed.Load(); n > lists {
							lists = n
							advance(test.open)
							if test.event {
								s.put("object", true)
								synctest.Wait()
							}
							s.EndWith(apierrors.NewResourceExpired("discarded"))
						}
					}
					if lists > test.lists || lists < 100 {
						t.Errorf("%d lists in an hour", lists)
					}
				})
			})
		}
	}
}

// A server on which no watch can be opened is not listed all the time.
func TestBackOffOfRefusedWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for range 1000 {
			s.watchErr = append(s.watchErr, apierrors.NewResourceExpired(""))
		}
		k, _ := start(t, s, false)
		advance(time.Hour)
		if lists := k.completed.Load(); lists > 300 || lists < 100 {
			t.Errorf("%d lists in an hour", lists)
		}
	})
}

// resetError is the error of a watch after a reset.
func resetError() *apierrors.StatusError {
	err := apierrors.NewResourceExpired("discarded")
	err.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: causeReset}}}
	return err
}

// A server that is reset again and again, while nothing changes, is listed within milliseconds each
// time. So is one that discards its history once in a while.
func TestQuietKindsExpire(t *testing.T) {
	for _, test := range []struct {
		name      string
		bookmarks bool
		between   time.Duration
		err       *apierrors.StatusError
	}{
		{"reset, with watch lists", true, 0, resetError()},
		{"reset, without watch lists", false, 0, resetError()},
		{"with watch lists", true, StableAfter, apierrors.NewResourceExpired("discarded")},
		{"without watch lists", false, StableAfter, apierrors.NewResourceExpired("discarded")},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				k, errs := start(t, s, test.bookmarks)
				synctest.Wait()
				for n := range 50 {
					if n == 25 { // The request of a list fails.
						requests := &s.listErr
						if test.bookmarks {
							requests = &s.watchErr
						}
						s.set(func() { *requests = []error{errors.New("connection refused")} })
					}
					time.Sleep(test.between)
					s.Do(func() { s.Version++ })
					s.EndWith(test.err)
					begun := time.Now()
					for int(k.completed.Load()) < n+2 && time.Since(begun) < time.Minute {
						advance(time.Millisecond)
					}
					if took := time.Since(begun); took > 20*time.Millisecond && n != 25 {
						t.Fatalf("list %d took %s", n, took)
					}
				}
				if len(*errs) != 1 {
					t.Errorf("errors %v", *errs)
				}
			})
		})
	}
}

// A server that is reset all the time is not listed in a tight loop, and one that says so of each watch,
// but has the same version, is listed less and less often.
func TestIntervalOfResets(t *testing.T) {
	for _, test := range []struct {
		name     string
		versions int
		lists    int
	}{{"reset", 1, 102}, {"not reset", 0, 4}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				k, _ := start(t, s, true)
				for begun := time.Now(); time.Since(begun) < time.Second; advance(time.Millisecond) {
					s.Do(func() { s.Version += test.versions })
					s.EndWith(resetError())
				}
				if lists := int(k.completed.Load()); lists > test.lists {
					t.Errorf("%d lists in a second", lists)
				}
			})
		})
	}
}

// A server on which every watch delivers an event that cannot be decoded is not listed in a tight loop.
func TestBackOffOfUndecodableEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		k, _ := start(t, s, true)
		lists := int64(0)
		for begun := time.Now(); time.Since(begun) < time.Hour; advance(time.Second) {
			if n := int64(k.completed.Load()); n > lists {
				lists = n
				s.Send([]byte("<html>"))
			}
		}
		if lists > 300 {
			t.Errorf("%d lists in an hour", lists)
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
		s.Stall()
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
			s.NoWatchList = r.IntN(2) == 0
			s.Media = []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}[r.IntN(2)]
			s.ReadSize = 1 + r.IntN(300)
			k, _ := start(t, s, r.IntN(2) == 0)
			for range 400 {
				switch r.IntN(30) {
				case 0:
					s.Break(io.EOF)
				case 1:
					s.expire()
				case 2:
					s.EndWith(apierrors.NewResourceExpired(""))
				case 3:
					s.set(func() { s.watchErr = append(s.watchErr, apierrors.NewInternalError(errors.New("no"))) })
				case 4:
					s.set(func() { s.listErr = append(s.listErr, nil, apierrors.NewResourceExpired("")) })
				case 5:
					s.SendEvent(apiwatch.Bookmark, bookmark(s.Version))
				case 6:
					time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
				case 7:
					synctest.Wait()
				case 8:
					s.EndWith(resetError())
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
