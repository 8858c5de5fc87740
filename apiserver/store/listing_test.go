package store_test

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// decoding is a codec that counts the decoded objects.
type decoding struct {
	runtime.Codec
	decoded atomic.Int64
}

func (d *decoding) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	d.decoded.Add(1)
	return d.Codec.Decode(data, defaults, into)
}

// TestListsDecodeNothing: a list of idle objects that are stored as the client wants them decodes none, and no list
// leaves a decoded object behind.
func TestListsDecodeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 500
		protobuf := func(o resource.StoredObjects, i int) error { _, err := o.AppendProtobuf(nil, i); return err }
		decode := func(o resource.StoredObjects, i int) error { return o.Decode(&corev1.PodList{}, i, i+1) }
		asJSON := func(o resource.StoredObjects, i int) error {
			if _, ok := o.AppendJSON(nil, i); !ok {
				return errors.New("it must be decoded")
			}
			return nil
		}
		backend := memory.New(memory.Options{CompressAfter: 10 * time.Second})
		defer backend.Close()
		codec, config := &decoding{Codec: podCodec}, podConfig
		config.Codec = codec
		s := store.New(backend, config)
		for i := range pods {
			createPod(t, s, newPod(i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, test := range []struct {
			label          string
			items, decoded int64
			take           func(o resource.StoredObjects, i int) error
		}{{"", pods, 0, protobuf}, {"shard=7", pods / 100, 0, protobuf}, {"", pods, 0, asJSON},
			{"", pods, 0, decode}} { // the codec decodes none of these, as it would add nothing
			codec.decoded.Store(0)
			selector, err := labels.Parse(test.label)
			if err != nil {
				t.Fatal(err)
			}
			var into resource.Listing
			o := apistorage.ListOptions{Recursive: true, Predicate: apistorage.SelectionPredicate{Label: selector, Field: fields.Everything(), GetAttrs: podAttributes}}
			if err := s.GetList(resource.WithListing(t.Context(), &into), "/core/pods", o, &corev1.PodList{}); err != nil {
				t.Fatal(err)
			}
			for i := range into.Objects.Len() {
				if err := test.take(into.Objects, i); err != nil {
					t.Fatal(err)
				}
			}
			if n, decoded := int64(into.Objects.Len()), codec.decoded.Load(); n != test.items || decoded != test.decoded {
				t.Errorf("%q: %d items and %d decoded objects, want %d and %d", test.label, n, decoded, test.items, test.decoded)
			}
			listPods(t, s, "/core/pods", apistorage.ListOptions{})
		}
		requireIdle(t, backend)
	})
}

// TestWatchListsDecodeNothing: the initial events of a watch decode no idle object that is stored as the client wants it, and
// leave no decoded object behind.
func TestWatchListsDecodeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 500
		backend := memory.New(memory.Options{CompressAfter: 10 * time.Second})
		defer backend.Close()
		codec, config := &decoding{Codec: podCodec}, podConfig
		config.Codec, config.Indexed = codec, []string{"spec.nodeName"}
		s := store.New(backend, config)
		for i := range pods {
			createPod(t, s, newPod(i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		protobuf := func(o resource.StoredObject) bool {
			size, ok := o.ProtobufSize()
			return ok && len(o.AppendProtobuf(nil)) == size
		}
		asJSON := func(o resource.StoredObject) bool {
			_, ok := o.AppendJSON(nil)
			return ok
		}
		for _, test := range []struct {
			label, node string
			items       int
			take        func(o resource.StoredObject) bool
		}{{"", "", pods, protobuf}, {"", "", pods, asJSON}, {"shard=7", "", pods / 100, protobuf}, {"shard=7", "", pods / 100, asJSON},
			{"", "node-7", pods / 50, protobuf}} {
			codec.decoded.Store(0)
			selector, err := labels.Parse(test.label)
			if err != nil {
				t.Fatal(err)
			}
			field := fields.Everything()
			if test.node != "" {
				field = fields.OneTermEqualSelector("spec.nodeName", test.node)
			}
			w := watchPods(t, t.Context(), s, apistorage.ListOptions{Predicate: apistorage.SelectionPredicate{Label: selector, Field: field, GetAttrs: podAttributes}})
			items := 0
			w.(resource.EventServer).ServeEvents(func(e watch.Event) error {
				t.Errorf("%s is decoded", describeEvent(t, e))
				return nil
			}, func(o resource.StoredObject) (bool, error) {
				items++
				return test.take(o), nil
			}, func() error {
				w.Stop()
				return nil
			})
			if decoded := codec.decoded.Load(); items != test.items || decoded != 0 {
				t.Errorf("%q, %q: %d items and %d decoded objects, want %d and none", test.label, test.node, items, decoded, test.items)
			}
		}
		requireIdle(t, backend)
	})
}

// requireIdle fails the test unless all records are idle and without decoded objects.
func requireIdle(t *testing.T, backend storage.Store) {
	t.Helper()
	page, err := backend.Range(t.Context(), storage.Query{Scan: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		for range r.AllCached() {
			t.Fatalf("%s has a decoded object", r.Key)
		}
		if r.SetCached(t, 1); r.Cached(t) != nil {
			t.Fatalf("%s is no longer idle", r.Key)
		}
	}
}

// TestDecodeForCells: a list for cells has the objects of a list, but for their managed fields.
func TestDecodeForCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New(memory.Options{CompressAfter: 10 * time.Second})
		defer backend.Close()
		s := store.New(backend, podConfig)
		const pods = 200
		random := rand.New(rand.NewPCG(1, 2))
		for i := range pods {
			pod := newPod(i)
			name, namespace := pod.Name, pod.Namespace
			pod.ObjectMeta = randomMetadata(random)
			pod.Name, pod.Namespace = name, namespace
			createPod(t, s, pod)
		}
		list := func() resource.StoredObjects {
			var into resource.Listing
			o := apistorage.ListOptions{Recursive: true, Predicate: apistorage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), GetAttrs: podAttributes}}
			if err := s.GetList(resource.WithListing(t.Context(), &into), "/core/pods", o, &corev1.PodList{}); err != nil {
				t.Fatal(err)
			}
			if into.Objects.Len() != pods {
				t.Fatalf("%d pods", into.Objects.Len())
			}
			return into.Objects
		}
		for _, idle := range []bool{false, true} {
			if idle {
				time.Sleep(time.Minute) // virtual
				synctest.Wait()
			}
			whole, forCells, managed := list(), list(), 0
			for from := 0; from < pods; from += 3 {
				to := min(from+3, pods)
				var want, got corev1.PodList
				if err := errors.Join(whole.Decode(&want, from, to), forCells.DecodeForCells(&got, from, to)); err != nil {
					t.Fatal(err)
				}
				for i := range want.Items {
					managed += len(want.Items[i].ManagedFields)
					if n := len(got.Items[i].ManagedFields); idle && n > 0 {
						t.Errorf("pod %d has %d managed fields for its cells", from+i, n)
					}
					want.Items[i].ManagedFields, got.Items[i].ManagedFields = nil, nil
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("idle: %v; (-want +got):\n%s", idle, d)
				}
			}
			if managed == 0 {
				t.Error("no pod has managed fields")
			}
		}
	})
}
