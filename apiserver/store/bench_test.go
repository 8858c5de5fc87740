package store_test

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/apiserver/store"
	"flyball.dev/storage/memory"
)

func filledPods(b *testing.B, n int) *store.Store {
	s, _ := podStore(b, memory.Options{})
	for i := range n {
		createPod(b, s, newPod(i))
	}
	return s
}

func BenchmarkCreate(b *testing.B) {
	s, _ := podStore(b, memory.Options{})
	pod := newPod(0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		pod.Name = fmt.Sprintf("pod-%d", i)
		createPod(b, s, pod)
	}
}

func BenchmarkUpdate(b *testing.B) {
	s := filledPods(b, 1000)
	key := podKey(newPod(500))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		updatePod(b, s, key, func(p *corev1.Pod) { p.Generation = int64(i) })
	}
}

func BenchmarkGet(b *testing.B) {
	s := filledPods(b, 1000)
	key, out := podKey(newPod(500)), &corev1.Pod{}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Get(b.Context(), key, apistorage.GetOptions{}, out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetList(b *testing.B) {
	s := filledPods(b, 10_000)
	one, err := labels.Parse("shard=7")
	if err != nil {
		b.Fatal(err)
	}
	selected := apistorage.Everything
	selected.Label, selected.GetAttrs = one, apistorage.DefaultNamespaceScopedAttr
	for name, run := range map[string]struct {
		path string
		opts apistorage.ListOptions
	}{
		"all=10000":      {path: "/core/pods"},
		"namespace=1000": {path: "/core/pods/ns-3"},
		"label=100":      {"/core/pods", apistorage.ListOptions{Predicate: selected}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				listPods(b, s, run.path, run.opts)
			}
		})
	}
}

// BenchmarkPages reads 500,000 objects at once and in pages, while nothing happens and while each
// page is followed by a write.
func BenchmarkPages(b *testing.B) {
	const n = 500_000
	backend := memory.New(memory.Options{})
	defer backend.Close()
	s := store.New(backend, store.Config{Codec: podCodec, Prefix: "/core/configmaps", New: func() runtime.Object { return &corev1.ConfigMap{} }})
	write := func(i, round int) {
		c := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("config-%06d", i), Namespace: fmt.Sprintf("ns-%d", i%10)},
			Data:       map[string]string{"round": fmt.Sprint(round)},
		}
		update := func(runtime.Object, apistorage.ResponseMeta) (runtime.Object, *uint64, error) { return c, nil, nil }
		err := s.GuaranteedUpdate(b.Context(), "/core/configmaps/"+c.Namespace+"/"+c.Name, &corev1.ConfigMap{}, true, nil, update, nil)
		if err != nil {
			b.Fatal(err)
		}
	}
	for i := range n {
		write(i, 0)
	}
	for _, test := range []struct {
		name   string
		limit  int64
		writes bool
	}{{"whole", 0, false}, {"pages=500", 500, false}, {"pages=500,writes", 500, true}} {
		b.Run(test.name, func(b *testing.B) {
			for round := 1; b.Loop(); round++ {
				p, seen := apistorage.Everything, 0
				p.Limit = test.limit
				for more := true; more; more = p.Continue != "" {
					list := &corev1.ConfigMapList{}
					if err := s.GetList(b.Context(), "/core/configmaps", apistorage.ListOptions{Recursive: true, Predicate: p}, list); err != nil {
						b.Fatal(err)
					}
					seen += len(list.Items)
					p.Continue = list.Continue
					if rest := list.RemainingItemCount; rest != nil && int(*rest) != n-seen {
						b.Fatalf("%d remain of %d after %d", *rest, n, seen)
					}
					if test.writes {
						write(seen*7919%n, round)
					}
				}
				if seen != n {
					b.Fatalf("%d objects, want %d", seen, n)
				}
			}
		})
	}
}

// BenchmarkWatch has one writer and 100 watchers. Each watcher encodes its events in the same way as the server.
func BenchmarkWatch(b *testing.B) {
	const watchers, burst = 100, 200
	s := filledPods(b, 1000)
	first := listPods(b, s, "/core/pods", apistorage.ListOptions{}).ResourceVersion
	var caughtUp, running sync.WaitGroup
	var open []watch.Interface
	for range watchers {
		w, err := s.Watch(b.Context(), "/core/pods", apistorage.ListOptions{
			ResourceVersion: first, Recursive: true, Predicate: apistorage.Everything,
		})
		if err != nil {
			b.Fatal(err)
		}
		open = append(open, w)
		running.Go(func() {
			seen := 0
			for e := range w.ResultChan() {
				if err := encodeEvent(e, io.Discard); err != nil {
					b.Error(err)
				}
				if seen++; seen%burst == 0 {
					caughtUp.Done()
				}
			}
		})
	}
	caughtUp.Add(watchers)
	for i := 1; b.Loop(); i++ {
		updatePod(b, s, podKey(newPod(i%1000)), func(p *corev1.Pod) { p.Generation = int64(i) })
		if i%burst == 0 {
			caughtUp.Wait()
			caughtUp.Add(watchers)
		}
	}
	b.ReportMetric(float64(b.N*watchers)/b.Elapsed().Seconds(), "events/s")
	for _, w := range open {
		w.Stop()
	}
	running.Wait()
}

// encodeEvent writes an event like the server's watch handler. The object caches the encoding of the framed event.
func encodeEvent(e watch.Event, w io.Writer) error {
	return e.Object.(runtime.CacheableObject).CacheEncode(runtime.Identifier("event"+string(e.Type)),
		func(obj runtime.Object, w io.Writer) error {
			var buf bytes.Buffer
			if err := podCodec.Encode(obj, &buf); err != nil {
				return err
			}
			out := &metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: buf.Bytes()}}
			return podSerializer.Encode(out, w)
		}, w)
}
