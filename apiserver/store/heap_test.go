package store_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/apiserver/store"
	"flyball.dev/internal/heaptest"
	"flyball.dev/internal/testlevel"
	"flyball.dev/storage/memory"
)

// TestHeapAfterDelete creates and deletes 100,000 objects, some with a TTL, with a slow watch and paged lists. The
// remaining heap must be within the bounds of the history at first, and close to zero two minutes later.
func TestHeapAfterDelete(t *testing.T) {
	testlevel.NeedsFull(t, "measures the heap of the process")
	synctest.Test(t, func(t *testing.T) {
		const objects, size = 100_000, 3000
		backend := memory.New(memory.Options{})
		defer backend.Close()
		s := store.New(backend, store.Config{Codec: podCodec, Prefix: "/core/configmaps",
			New: func() apiruntime.Object { return &corev1.ConfigMap{} }})
		text, empty := strings.Repeat("x", size), heaptest.Live()
		newest, err := s.Watch(t.Context(), "/core/configmaps", apistorage.ListOptions{Recursive: true, Predicate: apistorage.Everything})
		if err != nil {
			t.Fatal(err)
		}
		defer newest.Stop()
		key := func(i int) string { return fmt.Sprintf("/core/configmaps/default/c-%d", i) }
		for i := range objects {
			c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c-", i)}, Data: map[string]string{"text": text}}
			if err := s.Create(t.Context(), key(i), c, nil, uint64(i%2)*3600); err != nil {
				t.Fatal(err)
			}
		}
		p := apistorage.Everything
		p.Limit = 10
		for i := range objects {
			if i%(objects/10) == 0 {
				list := &corev1.ConfigMapList{}
				if err := s.GetList(t.Context(), "/core/configmaps", apistorage.ListOptions{Recursive: true, Predicate: p}, list); err != nil {
					t.Fatal(err)
				}
			}
			err := s.Delete(t.Context(), key(i), &corev1.ConfigMap{}, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 && i < objects/2 {
				<-newest.ResultChan() // reads far behind the writers
			}
		}
		if left := heaptest.Live() - empty; left > 100<<20 {
			t.Errorf("%d MiB are left at once", left>>20)
		}
		newest.Stop()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if left := heaptest.Live() - empty; left > 10<<20 {
			t.Errorf("%d MiB are left in the end", left>>20)
		}
		runtime.KeepAlive(s)
	})
}

// TestHeapOfIdlePods bounds the live heap of a stored pod that has not been used for a while, and
// checks that all pods are read as they were written.
func TestHeapOfIdlePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods, limit = 500, 700
		backend := memory.New(memory.Options{CompressAfter: 10 * time.Second})
		defer backend.Close()
		s := podStoreOn(backend)
		createPod(t, s, newPod(pods))
		time.Sleep(time.Minute) // the first pod that becomes idle makes what all share
		synctest.Wait()
		heap := heaptest.New(t, "flyball.dev/storage/memory.")
		for i := range pods {
			createPod(t, s, newPod(i))
		}
		active := heap.Held() / pods
		time.Sleep(time.Minute)
		synctest.Wait()
		if size := heap.Held() / pods; size > limit {
			t.Errorf("an idle pod takes %d bytes, and an active one %d", size, active)
		} else {
			t.Logf("an idle pod takes %d bytes, and an active one %d", size, active)
		}
		list := listPods(t, s, "/core/pods", apistorage.ListOptions{})
		if len(list.Items) != pods+1 {
			t.Fatalf("%d pods are listed, want %d", len(list.Items), pods+1)
		}
		for i := range pods {
			got := &corev1.Pod{}
			if err := s.Get(t.Context(), podKey(newPod(i)), apistorage.GetOptions{}, got); err != nil {
				t.Fatal(err)
			}
			want := newPod(i)
			want.ResourceVersion, want.TypeMeta = got.ResourceVersion, got.TypeMeta
			if !equality.Semantic.DeepEqual(got, want) {
				t.Fatalf("an idle pod differs from what was written: %s", cmp.Diff(want, got))
			}
		}
		if err := store.Verify(t.Context(), backend); err != nil {
			t.Error(err)
		}
	})
}

// TestHeapWhileWriting bounds the live heap of pods while they are written, when no time has passed in which they could
// have become idle. Without a bound on the active records, a pod takes more than 10 KiB.
func TestHeapWhileWriting(t *testing.T) {
	const pods, limit = 30_000, 3 << 10
	backend := memory.New(memory.Options{CompressAfter: time.Hour})
	defer backend.Close()
	s, empty := podStoreOn(backend), heaptest.Live()
	for i := range pods {
		createPod(t, s, newPod(i))
	}
	if size := (heaptest.Live() - empty) / pods; size > limit {
		t.Errorf("a pod takes %d bytes while pods are written", size)
	} else {
		t.Logf("a pod takes %d bytes", size)
	}
	runtime.KeepAlive(s)
}

// TestCacheWeakly expects that a decoded object is shared until the next collection of garbage, and is gone then.
func TestCacheWeakly(t *testing.T) {
	config := podConfig
	config.CacheWeakly = true
	backend := memory.New(memory.Options{})
	defer backend.Close()
	s, pod := store.New(backend, config), newPod(1)
	if err := s.Create(t.Context(), podKey(pod), pod, nil, 0); err != nil {
		t.Fatal(err)
	}
	record, err := backend.Get(t.Context(), podKey(pod))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got := &corev1.Pod{}
		if err := s.Get(t.Context(), podKey(pod), apistorage.GetOptions{}, got); err != nil || got.Spec.NodeName != pod.Spec.NodeName {
			t.Fatalf("got %v, %v", got.Spec, err)
		}
		if err := store.Verify(t.Context(), backend); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			runtime.GC()
		}
		if store.HasObject(record) {
			t.Error("a decoded object is cached after a collection of garbage")
		}
	}
}
