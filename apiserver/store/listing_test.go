package store_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"

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
			encoded, appended := o.AppendProtobuf(nil)
			return ok && appended && len(encoded) == size
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

// following is a codec that knows which of the objects that it has decoded are still in use.
type following struct {
	runtime.Codec
	decoded []weak.Pointer[corev1.Pod]
}

func (f *following) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := f.Codec.Decode(data, defaults, into)
	if pod, ok := obj.(*corev1.Pod); ok {
		f.decoded = append(f.decoded, weak.Make(pod))
	}
	return obj, kind, err
}

// used returns how many of the objects are in use.
func (f *following) used() (n int) {
	goruntime.GC()
	for _, pod := range f.decoded {
		if pod.Value() != nil {
			n++
		}
	}
	return n
}

// withUnknownField returns an encoded pod with a field that no pod has, so that decoding and encoding it changes it.
func withUnknownField(t *testing.T, pod []byte) []byte {
	t.Helper()
	prefix := []byte("k8s\x00")
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(bytes.TrimPrefix(pod, prefix)); err != nil {
		t.Fatal(err)
	}
	envelope.Raw = append(envelope.Raw, 0xa2, 0x06, 1, 'x')
	changed, err := envelope.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(prefix, changed...)
}

// TestListsKeepFewObjects counts the decoded objects that a list keeps between its beginning, when it knows the sizes of all, and its end:
// none if the objects are encrypted, and a window of them if they are not stored as the client wants them.
func TestListsKeepFewObjects(t *testing.T) {
	const pods = 200
	for _, test := range []struct {
		name        string
		transformer value.Transformer
		change      func(*testing.T, []byte) []byte
		label       string
		items, kept int
	}{
		{name: "plain", items: pods},
		{name: "encrypted", transformer: reverse{}, items: pods},
		{name: "encrypted, by label", transformer: reverse{}, label: "shard=7", items: 2},
		{name: "of others", change: withUnknownField, items: pods, kept: 16},
		{name: "encrypted, of others", transformer: reverse{}, change: withUnknownField, items: pods, kept: 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			backend := memory.New(memory.Options{})
			defer backend.Close()
			codec, config := &following{Codec: podCodec}, podConfig
			config.Codec, config.Transformer = codec, test.transformer
			s := store.New(backend, config)
			for i := range pods {
				encoded, err := runtime.Encode(podCodec, newPod(i))
				if test.change != nil {
					encoded = test.change(t, encoded)
				}
				key := podKey(newPod(i))
				sealed, sealing := store.Seal(t.Context(), test.transformer, key, encoded)
				if _, writing := backend.Put(t.Context(), storage.Write{Key: key, Value: sealed, If: storage.Absent}); errors.Join(err, sealing, writing) != nil {
					t.Fatal(err, sealing, writing)
				}
			}
			selector, err := labels.Parse(test.label)
			if err != nil {
				t.Fatal(err)
			}
			for round, form := range []struct {
				name   string
				size   func(resource.StoredObjects, int) (int, bool)
				append func(resource.StoredObjects, []byte, int) ([]byte, error)
			}{
				{"objects", resource.StoredObjects.ProtobufSize, resource.StoredObjects.AppendProtobuf},
				{"objects again", resource.StoredObjects.ProtobufSize, resource.StoredObjects.AppendProtobuf},
				{"metadata", resource.StoredObjects.ProtobufMetadataSize, resource.StoredObjects.AppendProtobufMetadata},
			} {
				var into resource.Listing
				o := apistorage.ListOptions{Recursive: true, Predicate: apistorage.SelectionPredicate{Label: selector, Field: fields.Everything(), GetAttrs: podAttributes}}
				if err := s.GetList(resource.WithListing(t.Context(), &into), "/core/pods", o, &corev1.PodList{}); err != nil {
					t.Fatal(err)
				}
				for i := range into.Objects.Len() {
					if size, ok := form.size(into.Objects, i); !ok || size == 0 {
						t.Fatalf("%s: item %d has %d bytes", form.name, i, size)
					}
				}
				if n, kept := into.Objects.Len(), codec.used(); n != test.items || kept != test.kept {
					t.Errorf("%s: the list has %d items and keeps %d objects, want %d and %d", form.name, n, kept, test.items, test.kept)
				}
				for i := range into.Objects.Len() {
					size, _ := form.size(into.Objects, i)
					if encoded, err := form.append(into.Objects, nil, i); err != nil || len(encoded) != size {
						t.Fatalf("%s: item %d has %d bytes, want %d; %v", form.name, i, len(encoded), size, err)
					}
				}
				if kept := codec.used(); kept > 0 {
					t.Errorf("%s: %d objects are kept after the list", form.name, kept)
				}
				want := 0
				if test.change != nil { // once for the size, and once to encode what was not kept
					want = 2*test.items - test.kept
				}
				if decoded := len(codec.decoded); round > 0 && decoded != want { // the first list learns what the values are
					t.Errorf("%s: the list decodes %d objects, want %d", form.name, decoded, want)
				}
				codec.decoded = nil
			}
		})
	}
}

// breaking is a transformer that fails when it is broken.
type breaking struct {
	value.Transformer
	broken bool
}

var errBroken = errors.New("the key is gone")

func (b *breaking) TransformFromStorage(ctx context.Context, data []byte, c value.Context) ([]byte, bool, error) {
	if b.broken {
		return nil, false, errBroken
	}
	return b.Transformer.TransformFromStorage(ctx, data, c)
}

// TestListLosesItsKey: if encrypted objects cannot be decrypted any more when a list is written, each way to write them fails. A new
// list fails at its beginning.
func TestListLosesItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New(memory.Options{CompressAfter: 10 * time.Second})
		defer backend.Close()
		transformer, config := &breaking{Transformer: reverse{}}, podConfig
		config.Transformer = transformer
		s := store.New(backend, config)
		for i := range 4 {
			createPod(t, s, newPod(i))
		}
		time.Sleep(time.Minute) // until nothing is cached
		synctest.Wait()
		list := func() (resource.StoredObjects, error) {
			var into resource.Listing
			o := apistorage.ListOptions{Recursive: true, Predicate: apistorage.Everything}
			err := s.GetList(resource.WithListing(t.Context(), &into), "/core/pods", o, &corev1.PodList{})
			return into.Objects, err
		}
		objects, err := list()
		if err != nil {
			t.Fatal(err)
		}
		transformer.broken = true
		if _, ok := objects.AppendJSON(nil, 0); ok {
			t.Error("JSON is written")
		}
		if err := objects.Decode(&corev1.PodList{}, 0, 1); !errors.Is(err, errBroken) {
			t.Errorf("decoded: %v", err)
		}
		if _, err := objects.AppendProtobuf(nil, 1); !errors.Is(err, errBroken) {
			t.Errorf("as protobuf: %v", err)
		}
		if _, ok := objects.AppendMetadata(nil, 2); ok {
			t.Error("metadata is written")
		}
		if err := objects.DecodeForCells(&corev1.PodList{}, 2, 3); !errors.Is(err, errBroken) {
			t.Errorf("decoded for cells: %v", err)
		}
		if _, err := list(); !errors.Is(err, errBroken) {
			t.Errorf("a new list: %v", err)
		}
	})
}

// TestNotesOfEncryption: what a store with encryption has found out about values does not mislead one without, and the other way round.
func TestNotesOfEncryption(t *testing.T) {
	list := func(s *store.Store) error {
		var into resource.Listing
		return s.GetList(resource.WithListing(t.Context(), &into), "/core/pods", apistorage.ListOptions{Recursive: true, Predicate: apistorage.Everything}, &corev1.PodList{})
	}
	for _, sealed := range []bool{true, false} {
		backend := memory.New(memory.Options{})
		defer backend.Close()
		encrypting := podConfig
		encrypting.Transformer = &breaking{Transformer: reverse{}}
		writer, reader := store.New(backend, encrypting), store.New(backend, podConfig)
		if !sealed {
			writer, reader = reader, writer
		}
		createPod(t, writer, newPod(1))
		if err := list(writer); err != nil {
			t.Fatal(err)
		}
		if err := list(reader); err == nil {
			t.Errorf("encrypted: %v: the other store lists what it cannot read", sealed)
		}
	}
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
