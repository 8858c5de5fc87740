package listener

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

// replica is a handler that applies its notifications to a map, and checks that each one is
// consistent with those before it.
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
		r.t.Errorf("%s was updated from another state than its last one", o.GetName())
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

// However slow a handler is, it ends up with the current state and is notified of every deletion.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			r := &replica{t: t, objects: map[string]client.Object{}}
			r.slow = func() { time.Sleep(time.Duration(seed) * time.Millisecond) }
			l := New("test", r, 0, seed%2 == 0)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go l.Run(ctx, nil)
			model, deleted := map[string]client.Object{}, 0
			for range 2000 {
				name := fmt.Sprint(rnd.IntN(10))
				obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
				switch before := model[name]; {
				case before == nil:
					l.NotifyAdd(store.NewSnapshot(obj), false)
					model[name] = obj
				case rnd.IntN(4) == 0:
					l.NotifyDelete(store.NewSnapshot(before), rnd.IntN(2) == 0)
					delete(model, name)
					deleted++
				default:
					l.NotifyUpdate(store.NewSnapshot(before), store.NewSnapshot(obj))
					model[name] = obj
				}
				if rnd.IntN(5) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			if l.HasSynced() {
				t.Error("synced before the end of the initial list")
			}
			l.NotifySynced()
			<-l.HasSyncedChecker().Done()
			if len(r.objects) != len(model) || r.deleted != deleted {
				t.Errorf("%d objects, want %d; %d deletions, want %d", len(r.objects), len(model), r.deleted, deleted)
			}
			for name, obj := range model {
				if r.objects[name] != obj {
					t.Errorf("%s has another state than the model", name)
				}
			}
		})
	}
}

// A blocked handler does not make the pending notifications grow without bound.
func TestMemoryIsBounded(t *testing.T) {
	l := New("test", toolscache.ResourceEventHandlerFuncs{}, 0, false)
	obj := &corev1.ConfigMap{}
	l.NotifyAdd(store.NewSnapshot(obj), true)
	for range 10_000 {
		l.NotifyUpdate(store.NewSnapshot(obj), store.NewSnapshot(obj))
	}
	pending := 0
	for n := l.first; n != nil; n = n.next {
		pending++
	}
	if pending != 1 || len(l.latest) != 1 {
		t.Errorf("%d notifications are pending, %d of them coalesce", pending, len(l.latest))
	}
	for l.pop() != nil {
	}
	if l.first != nil || l.last != nil || len(l.latest) != 0 {
		t.Error("an empty listener refers to notifications")
	}
}

// A handler that wants each change gets each, unless too many are pending.
func TestEachChange(t *testing.T) {
	configMap := func(version int) *store.Snapshot {
		return store.NewSnapshot(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: fmt.Sprint(version)}})
	}
	l := New("test", toolscache.ResourceEventHandlerFuncs{}, 0, true)
	l.NotifyAdd(configMap(0), false)
	const last = 10 * maxDecoded
	for version := range last {
		l.NotifyUpdate(configMap(version), configMap(version+1))
	}
	n := l.pop()
	for version := range maxDecoded - 1 {
		if n = l.pop(); n.before.Object().GetResourceVersion() != fmt.Sprint(version) {
			t.Fatalf("a change of version %s instead of %d", n.before.Object().GetResourceVersion(), version)
		}
	}
	if version := n.after.Object().GetResourceVersion(); version != fmt.Sprint(last) || l.pop() != nil || len(l.latest) != 0 {
		t.Errorf("the last change is to version %s", version)
	}
}

// A listener can be closed at any time, also by its own handler.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *Listener
		calls := 0
		l = New("test", toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { calls++; l.Close() }}, time.Second, false)
		for i := range 5 {
			l.NotifyAdd(store.NewSnapshot(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}), true)
		}
		l.Run(t.Context(), func(*Listener) { t.Error("resync after Close") })
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
		l.Close()
		l.Run(t.Context(), nil)
	})
}

func BenchmarkListener(b *testing.B) {
	done := make(chan struct{})
	l := New("bench", toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { close(done) }}, 0, false)
	go l.Run(b.Context(), nil)
	objs := make([]*store.Snapshot, 1000)
	for i := range objs {
		objs[i] = store.NewSnapshot(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("name-", i)}})
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		l.NotifyUpdate(objs[n%1000], objs[n%1000])
	}
	l.NotifyDelete(objs[0], false)
	<-done
}
