package feed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replica is a handler that keeps what it is told of, and checks that each
// notice follows from those before.
type replica struct {
	t       *testing.T
	mu      sync.Mutex
	objects map[string]client.Object
	deleted int
	slow    func()
}

func (r *replica) OnAdd(obj any, _ bool) {
	r.slow()
	r.mu.Lock()
	defer r.mu.Unlock()
	o := obj.(client.Object)
	if r.objects[o.GetName()] != nil {
		r.t.Errorf("%s was added twice", o.GetName())
	}
	r.objects[o.GetName()] = o
}

func (r *replica) OnUpdate(before, after any) {
	r.slow()
	r.mu.Lock()
	defer r.mu.Unlock()
	o := after.(client.Object)
	if r.objects[o.GetName()] != before {
		r.t.Errorf("%s was updated from what it was not", o.GetName())
	}
	r.objects[o.GetName()] = o
}

func (r *replica) OnDelete(obj any) {
	r.slow()
	r.mu.Lock()
	defer r.mu.Unlock()
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	o := obj.(client.Object)
	if r.objects[o.GetName()] == nil {
		r.t.Errorf("%s was deleted, but never added", o.GetName())
	}
	delete(r.objects, o.GetName())
	r.deleted++
}

// However slow a handler is, it ends up with what there is, and has heard of
// every deletion.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			r := &replica{t: t, objects: map[string]client.Object{}}
			r.slow = func() { time.Sleep(time.Duration(seed) * time.Millisecond) }
			f := New("test", r, 0)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go f.Run(ctx, nil)
			model, deleted := map[string]client.Object{}, 0
			for range 2000 {
				name := fmt.Sprint(rnd.IntN(10))
				obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
				switch before := model[name]; {
				case before == nil:
					f.Added(store.NewSnapshot(obj), false)
					model[name] = obj
				case rnd.IntN(4) == 0:
					f.Deleted(store.NewSnapshot(before), rnd.IntN(2) == 0)
					delete(model, name)
					deleted++
				default:
					f.Updated(store.NewSnapshot(before), store.NewSnapshot(obj))
					model[name] = obj
				}
				if rnd.IntN(5) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			if f.HasSynced() {
				t.Error("synced too early")
			}
			f.Synced()
			<-f.HasSyncedChecker().Done()
			if len(r.objects) != len(model) || r.deleted != deleted {
				t.Errorf("%d objects, want %d; %d deletions, want %d", len(r.objects), len(model), r.deleted, deleted)
			}
			for name, obj := range model {
				if r.objects[name] != obj {
					t.Errorf("%s is not what it should be", name)
				}
			}
		})
	}
}

// A handler that is stuck does not make the feed grow without bound.
func TestMemoryIsBounded(t *testing.T) {
	f := New("test", toolscache.ResourceEventHandlerFuncs{}, 0)
	obj := &corev1.ConfigMap{}
	f.Added(store.NewSnapshot(obj), true)
	for range 10_000 {
		f.Updated(store.NewSnapshot(obj), store.NewSnapshot(obj))
	}
	waiting := 0
	for n := f.first; n != nil; n = n.next {
		waiting++
	}
	if waiting != 1 || len(f.latest) != 1 {
		t.Errorf("%d notices wait, %d are remembered", waiting, len(f.latest))
	}
	for f.pop() != nil {
	}
	if f.first != nil || f.last != nil || len(f.latest) != 0 {
		t.Error("an empty feed holds on to something")
	}
}

// A feed can be closed at any time, also from its own handler.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *Feed
		told := 0
		f = New("test", toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { told++; f.Close() }}, time.Second)
		for i := range 5 {
			f.Added(store.NewSnapshot(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}), true)
		}
		f.Run(t.Context(), func(*Feed) { t.Error("resync after the end") })
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		f.Close()
		f.Run(t.Context(), nil)
	})
}

func BenchmarkFeed(b *testing.B) {
	done := make(chan struct{})
	f := New("bench", toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { close(done) }}, 0)
	go f.Run(b.Context(), nil)
	objs := make([]*store.Snapshot, 1000)
	for i := range objs {
		objs[i] = store.NewSnapshot(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("name-", i)}})
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		f.Updated(objs[n%1000], objs[n%1000])
	}
	f.Deleted(objs[0], false)
	<-done
}
