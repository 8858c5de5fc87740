package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/apiserver/resource"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

func watchPods(t testing.TB, ctx context.Context, s apistorage.Interface, opts apistorage.ListOptions) watch.Interface {
	t.Helper()
	opts.Recursive = true
	if opts.Predicate.Label == nil {
		bookmarks := opts.Predicate.AllowWatchBookmarks
		opts.Predicate = apistorage.Everything
		opts.Predicate.AllowWatchBookmarks = bookmarks
	}
	w, err := s.Watch(ctx, "/core/pods", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// describeEvent returns the part of an event that a client sees.
func describeEvent(t testing.TB, e watch.Event) string {
	t.Helper()
	m, err := meta.Accessor(e.Object)
	if err != nil {
		t.Fatalf("%s %+v", e.Type, e.Object)
	}
	s := fmt.Sprintf("%s %s@%s", e.Type, m.GetName(), m.GetResourceVersion())
	if end, _ := apistorage.HasInitialEventsEndBookmarkAnnotation(e.Object); end {
		s += " end"
	}
	return s
}

func expectEvents(t testing.TB, w watch.Interface, want ...string) {
	t.Helper()
	var got []string
	for range want {
		got = append(got, describeEvent(t, receive(t, w)))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWatchSelector has an object come into a selector and leave it.
func TestWatchSelector(t *testing.T) {
	s, _ := podStore(t, memory.Options{})
	label, err := labels.Parse("on=yes")
	if err != nil {
		t.Fatal(err)
	}
	w := watchPods(t, t.Context(), s, apistorage.ListOptions{Predicate: apistorage.SelectionPredicate{
		Label: label, Field: fields.Everything(), GetAttrs: apistorage.DefaultNamespaceScopedAttr,
	}})
	set := func(key, value string) {
		updatePod(t, s, key, func(p *corev1.Pod) { p.Labels = map[string]string{"on": value} })
	}
	key := podKey(createPod(t, s, newPod(1))) // 2
	set(key, "yes")                           // 3
	updatePod(t, s, key, func(p *corev1.Pod) { p.Generation++ })
	set(key, "no")  // 5
	set(key, "non") // 6
	set(key, "yes") // 7
	deletePod(t, s, key)
	expectEvents(t, w, "ADDED web-000001@3", "MODIFIED web-000001@4", "DELETED web-000001@5", "ADDED web-000001@7", "DELETED web-000001@8")
}

func TestWatchStart(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		name      string
		version   string
		initial   *bool
		bookmarks bool
		want      []string // before the pod of revision 5 is created, and after it was
	}{
		{"now, with what there is", "", nil, false, []string{"ADDED web-000001@4", "ADDED web-000002@3", "ADDED web-000003@5"}},
		{"any, with what there is", "0", nil, true, []string{"ADDED web-000001@4", "ADDED web-000002@3", "ADDED web-000003@5"}},
		{"since", "3", nil, false, []string{"MODIFIED web-000001@4", "ADDED web-000003@5"}},
		{"streaming list", "", &yes, true, []string{"ADDED web-000001@4", "ADDED web-000002@3", "BOOKMARK @4 end", "ADDED web-000003@5"}},
		{"streaming list of at least", "2", &yes, true, []string{"ADDED web-000001@4", "ADDED web-000002@3", "BOOKMARK @4 end", "ADDED web-000003@5"}},
		{"streaming list without bookmarks", "", &yes, false, []string{"ADDED web-000001@4", "ADDED web-000002@3", "ADDED web-000003@5"}},
		{"no list", "", &no, true, []string{"ADDED web-000003@5"}},
		{"no list, any", "0", &no, true, []string{"ADDED web-000003@5"}},
		{"no list, since", "3", &no, true, []string{"MODIFIED web-000001@4", "ADDED web-000003@5"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _ := podStore(t, memory.Options{})
			key := podKey(createPod(t, s, newPod(1)))
			createPod(t, s, newPod(2))
			updatePod(t, s, key, func(p *corev1.Pod) { p.Generation++ })
			w := watchPods(t, t.Context(), s, apistorage.ListOptions{ResourceVersion: test.version, SendInitialEvents: test.initial,
				Predicate: apistorage.SelectionPredicate{AllowWatchBookmarks: test.bookmarks}})
			createPod(t, s, newPod(3))
			expectEvents(t, w, test.want...)
		})
	}
}

// TestBookmarks tests a watch of five minutes. Others write during the watch; only the last write is to its own object.
func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend := podStore(t, memory.Options{})
		other := widgetStore(backend)
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		start := time.Now()
		w := watchPods(t, ctx, s, apistorage.ListOptions{Predicate: apistorage.SelectionPredicate{AllowWatchBookmarks: true}})
		silent := watchPods(t, ctx, s, apistorage.ListOptions{})
		for i, after := range []time.Duration{60, 120, 148} {
			name := fmt.Sprintf("w%d", i)
			if err := other.Create(ctx, "/example.com/widgets/default/"+name, newWidget(name), nil, 0); err != nil {
				t.Fatal(err)
			}
			expectEvents(t, w, fmt.Sprintf("BOOKMARK @%d", i+2))
			if time.Since(start) != after*time.Second {
				t.Errorf("bookmark %d came after %v", i, time.Since(start))
			}
		}
		for _, w := range []watch.Interface{w, silent} {
			if e, ok := <-w.ResultChan(); ok {
				t.Errorf("got %+v", e)
			}
		}
		if time.Since(start) != 150*time.Second {
			t.Errorf("the watch ended after %v", time.Since(start))
		}
	})
}

// TestBookmarksWhileBusy checks that bookmarks come although there is always something else to
// send.
func TestBookmarksWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := podStore(t, memory.Options{})
		key := podKey(createPod(t, s, newPod(1)))
		w := watchPods(t, t.Context(), s, apistorage.ListOptions{Predicate: apistorage.SelectionPredicate{AllowWatchBookmarks: true}})
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for last := "2"; ; {
			select {
			case <-ticker.C:
				updatePod(t, s, key, func(p *corev1.Pod) { p.Generation++ })
				continue
			case e := <-w.ResultChan():
				m, err := meta.Accessor(e.Object)
				if err != nil {
					t.Fatal(err)
				}
				if e.Type != watch.Bookmark {
					last = m.GetResourceVersion()
					continue
				}
				if m.GetResourceVersion() != last {
					t.Errorf("a bookmark at %s after an event at %s", m.GetResourceVersion(), last)
				}
			}
			return
		}
	})
}

func expectGone(t testing.TB, w watch.Interface) {
	t.Helper()
	e := receive(t, w)
	if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
		t.Errorf("%s %v", e.Type, err)
	}
	if e, ok := <-w.ResultChan(); ok {
		t.Errorf("after the error: %+v", e)
	}
}

func TestWatchTooOld(t *testing.T) {
	s, backend := podStore(t, memory.Options{})
	for i := range 5 {
		createPod(t, s, newPod(i))
	}
	if err := backend.Compact(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	expectGone(t, watchPods(t, t.Context(), s, apistorage.ListOptions{ResourceVersion: "3"}))
	expectEvents(t, watchPods(t, t.Context(), s, apistorage.ListOptions{ResourceVersion: "4"}), "ADDED web-000003@5", "ADDED web-000004@6")
}

// TestWatchAfterReset expects that a watch that expires says if that is because of a reset.
func TestWatchAfterReset(t *testing.T) {
	s, backend := podStore(t, memory.Options{})
	createPod(t, s, newPod(0))
	createPod(t, s, newPod(1))
	expired := func(w watch.Interface) (wasReset bool) {
		t.Helper()
		e := <-w.ResultChan()
		err := apierrors.FromObject(e.Object)
		if e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
			t.Fatalf("%s %v, want that the watch has expired", e.Type, err)
		}
		return apierrors.HasStatusCause(err, "ServerReset")
	}
	if err := backend.Compact(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if expired(watchPods(t, t.Context(), s, apistorage.ListOptions{ResourceVersion: "2"})) {
		t.Error("a reset is reported though there was none")
	}
	if err := backend.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	open := watchPods(t, t.Context(), s, apistorage.ListOptions{ResourceVersion: "3"})
	if err := backend.Reset(); err != nil {
		t.Fatal(err)
	}
	createPod(t, s, newPod(2))
	createPod(t, s, newPod(3))
	if err := backend.Compact(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	if !expired(open) || !expired(watchPods(t, t.Context(), s, apistorage.ListOptions{ResourceVersion: "3"})) {
		t.Error("the reset is not reported")
	}
	if expired(watchPods(t, t.Context(), s, apistorage.ListOptions{ResourceVersion: "5"})) {
		t.Error("the reset is reported for a version after it")
	}
}

// TestSlowClient lets a client fall behind the history: it gets the events in order, and then an
// error that there are gaps.
func TestSlowClient(t *testing.T) {
	s, _ := podStore(t, memory.Options{History: 100_000})
	key := podKey(createPod(t, s, newPod(1)))
	w := watchPods(t, t.Context(), s, apistorage.ListOptions{ResourceVersion: "2"})
	for range 1000 {
		updatePod(t, s, key, func(p *corev1.Pod) { p.Generation++ })
	}
	for want := 3; ; want++ {
		e := receive(t, w)
		if e.Type == watch.Error {
			if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) {
				t.Error(err)
			}
			return
		}
		if got := describeEvent(t, e); got != fmt.Sprintf("MODIFIED web-000001@%d", want) {
			t.Fatalf("got %s, want revision %d", got, want)
		}
	}
}

// TestEncodeOnce has many watchers encode the same events while others list and encode the lists:
// each event is encoded once, without a data race.
func TestEncodeOnce(t *testing.T) {
	const watchers, writes = 20, 50
	s, _ := podStore(t, memory.Options{})
	key := podKey(createPod(t, s, newPod(1)))
	var encoded, differing atomic.Int64
	var first sync.Map
	var group sync.WaitGroup
	var live []runtime.Object // keeps the encodings from being dropped
	var mu sync.Mutex
	for range watchers {
		w := watchPods(t, t.Context(), s, apistorage.ListOptions{ResourceVersion: "2"})
		group.Go(func() {
			for range writes {
				e := <-w.ResultChan()
				mu.Lock()
				live = append(live, e.Object)
				mu.Unlock()
				var buf bytes.Buffer
				err := e.Object.(runtime.CacheableObject).CacheEncode("test", func(obj runtime.Object, w io.Writer) error {
					encoded.Add(1)
					return podCodec.Encode(obj, w)
				}, &buf)
				if err != nil {
					t.Error(err)
				}
				m, _ := meta.Accessor(e.Object)
				if other, loaded := first.LoadOrStore(m.GetResourceVersion(), buf.String()); loaded && other != buf.String() {
					differing.Add(1)
				}
			}
		})
	}
	for range 3 {
		group.Go(func() {
			for range writes {
				list := listPods(t, s, "/core/pods", apistorage.ListOptions{})
				for i := range list.Items {
					if err := podCodec.Encode(&list.Items[i], io.Discard); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range writes {
		updatePod(t, s, key, func(p *corev1.Pod) { p.Generation++ })
	}
	group.Wait()
	if encoded.Load() != writes || differing.Load() != 0 {
		t.Errorf("%d events were encoded %d times, %d of them differently", writes, encoded.Load(), differing.Load())
	}
}

// TestContinueAfterCompaction continues a list with a compacted revision: the error has a token that continues the list
// at the latest revision.
func TestContinueAfterCompaction(t *testing.T) {
	s, backend := podStore(t, memory.Options{})
	for i := range 5 {
		pod := newPod(i)
		pod.Namespace = "ns"
		createPod(t, s, pod)
	}
	p := apistorage.Everything
	p.Limit = 2
	page := listPods(t, s, "/core/pods", apistorage.ListOptions{Predicate: p})
	if len(page.Items) != 2 || *page.RemainingItemCount != 3 {
		t.Fatalf("the first page: %d, %v", len(page.Items), page.ListMeta)
	}
	deletePod(t, s, "/core/pods/ns/web-000003")
	p.Continue = page.Continue
	if page := listPods(t, s, "/core/pods", apistorage.ListOptions{Predicate: p}); page.Items[1].Name != "web-000003" || page.ResourceVersion != "6" {
		t.Errorf("the second page is not as of the first: %v", page.Items)
	}
	if err := backend.Compact(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	err := s.GetList(t.Context(), "/core/pods", apistorage.ListOptions{Recursive: true, Predicate: p}, &corev1.PodList{})
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsResourceExpired(err) || status.Status().ListMeta.Continue == "" {
		t.Fatalf("after compaction: %v", err)
	}
	p.Continue = status.Status().ListMeta.Continue
	page = listPods(t, s, "/core/pods", apistorage.ListOptions{Predicate: p})
	if len(page.Items) != 2 || page.Items[1].Name != "web-000004" || page.ResourceVersion != "7" {
		t.Errorf("continued with: %v", page.Items)
	}
	exact := apistorage.ListOptions{ResourceVersion: "6", ResourceVersionMatch: metav1.ResourceVersionMatchExact, Recursive: true, Predicate: apistorage.Everything}
	if err := s.GetList(t.Context(), "/core/pods", exact, &corev1.PodList{}); !apierrors.IsResourceExpired(err) {
		t.Errorf("exactly before compaction: %v", err)
	}
}

// TestServeEvents receives events without a channel. They are flushed together if they are there
// together, and an error ends the watch.
func TestServeEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := podStore(t, memory.Options{})
		createPod(t, s, newPod(1))
		createPod(t, s, newPod(2))
		w := watchPods(t, t.Context(), s, apistorage.ListOptions{})
		want := []string{"ADDED web-000001@2", "ADDED web-000002@3", "flush", "ADDED web-000003@4"}
		var got []string
		failure := errors.New("the client has disconnected")
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.(resource.EventServer).ServeEvents(func(e watch.Event) error {
				got = append(got, describeEvent(t, e))
				if len(got) == len(want) {
					return failure
				}
				return nil
			}, nil, func() error {
				got = append(got, "flush")
				return nil
			})
		}()
		synctest.Wait()
		createPod(t, s, newPod(3))
		synctest.Wait()
		<-done
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestWatchThatIsNotRead has watches that are stopped, by themselves or by their context, before
// anybody reads their events.
func TestWatchThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := podStore(t, memory.Options{})
		createPod(t, s, newPod(1))
		ctx, cancel := context.WithCancel(t.Context())
		stopped, canceled := watchPods(t, t.Context(), s, apistorage.ListOptions{}), watchPods(t, ctx, s, apistorage.ListOptions{})
		stopped.Stop()
		cancel()
		synctest.Wait()
		for _, w := range []watch.Interface{stopped, canceled} {
			w.(resource.EventServer).ServeEvents(func(e watch.Event) error {
				t.Errorf("got %s", describeEvent(t, e))
				return nil
			}, nil, func() error { return nil })
			if e, ok := <-w.ResultChan(); ok {
				t.Errorf("got %s", describeEvent(t, e))
			}
		}
	})
}

// busyBackend is a backend that writes another pod whenever a watcher asks for events.
type busyBackend struct {
	*memory.Store
	value []byte // of the other pod
}

func (b busyBackend) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	w, err := b.Store.Watch(ctx, path, after)
	return busyWatcher{w, b}, err
}

type busyWatcher struct {
	storage.Watcher
	backend busyBackend
}

func (w busyWatcher) Next() ([]*storage.Event, uint64, error) {
	other := storage.Write{Key: "/core/pods/ns-2/web-000002", Value: w.backend.value, If: storage.Any}
	if _, err := w.backend.Put(context.Background(), other); err != nil {
		return nil, 0, err
	}
	return w.Watcher.Next()
}

// A deadline is a context with a deadline that does not end it.
type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }

// TestWatchOfOneAmongMany watches one pod while others are written all the time. Its events are
// flushed, there are bookmarks, and the watch ends with its context.
func TestWatchOfOneAmongMany(t *testing.T) {
	backend := memory.New(memory.Options{})
	t.Cleanup(func() { backend.Close() })
	other, err := runtime.Encode(podCodec, newPod(2))
	if err != nil {
		t.Fatal(err)
	}
	s := podStoreOn(busyBackend{backend, other})
	createPod(t, s, newPod(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx = deadline{ctx, time.Now().Add(2100 * time.Millisecond)} // a bookmark comes 2 s before
	w := watchPods(t, ctx, s, apistorage.ListOptions{Predicate: apistorage.SelectionPredicate{
		Label: labels.Everything(), Field: fields.OneTermEqualSelector("metadata.name", "web-000001"),
		GetAttrs: apistorage.DefaultNamespaceScopedAttr, AllowWatchBookmarks: true,
	}})
	var got []string
	w.(resource.EventServer).ServeEvents(func(e watch.Event) error {
		got = append(got, string(e.Type))
		return nil
	}, nil, func() error {
		if len(got) > 0 && got[len(got)-1] != "flush" {
			got = append(got, "flush")
		}
		if len(got) == 4 {
			cancel()
		}
		return nil
	})
	if want := []string{"ADDED", "flush", "BOOKMARK", "flush"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
