package store_test

import (
	"math/rand"
	"path"
	"reflect"
	"testing"
	"time"

	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apistorage "k8s.io/apiserver/pkg/storage"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage/memory"
)

// TestAdopted creates and updates objects of all built-in kinds in a store that takes them, and compares the cached objects with the
// objects that another store decodes from the same records.
func TestAdopted(t *testing.T) {
	scheme := builtin.Scheme()
	random := rand.New(rand.NewSource(1))
	filler := apifuzzer.FuzzerFor(metafuzzer.Funcs, random, clientscheme.Codecs).NilChance(.3).NumElements(0, 2).MaxDepth(20).Funcs(
		func(m *metav1.Time, c randfill.Continue) { m.Time = time.Unix(c.Int63n(1e9), c.Int63n(1e9)).UTC() },
		func(m *metav1.MicroTime, c randfill.Continue) { m.Time = time.Unix(c.Int63n(1e9), c.Int63n(1e9)) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString("{}") },
		func(r *runtime.RawExtension, _ randfill.Continue) { r.Raw = []byte("{}") },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse([]string{"0", "1", "3m", "5Gi"}[c.Intn(4)])
		},
	)
	adopted := map[string]bool{}
	for gvk := range scheme.AllKnownTypes() {
		if scheme.PrioritizedVersionsForGroup(gvk.Group)[0] != gvk.GroupVersion() {
			continue
		}
		if obj, err := scheme.New(gvk); err != nil {
			t.Fatal(err)
		} else if _, ok := obj.(metav1.Object); !ok {
			continue
		}
		t.Run(gvk.String(), func(t *testing.T) {
			backend := memory.New(memory.Options{})
			defer backend.Close()
			config := store.Config{Codec: builtin.StorageCodec(schema.GroupResource{Group: gvk.Group}), Prefix: "/objects",
				New: func() runtime.Object { obj, _ := scheme.New(gvk); return obj }}
			decoding := store.New(backend, config)
			config.Default = scheme.Default
			taking := store.New(backend, config)
			for n := range 8 {
				obj := config.New()
				filler.Fill(obj)
				m, _ := meta.Accessor(obj)
				m.SetName(string(rune('a' + n)))
				m.SetNamespace("")
				m.SetResourceVersion("")
				key := path.Join("/objects", m.GetName())
				compare := func(got runtime.Object, err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
					if shares(got, obj) {
						adopted[gvk.Kind] = true
					}
					want := config.New()
					if err := decoding.Get(t.Context(), key, apistorage.GetOptions{}, want); err != nil {
						t.Fatal(err)
					}
					if !reflect.DeepEqual(got, want) {
						t.Errorf("got  %#v\nwant %#v", got, want)
					}
				}
				if random.Intn(2) == 0 {
					scheme.Default(obj)
				}
				compare(taking.CreateShared(t.Context(), key, obj, 0))
				compare(taking.Update(t.Context(), key, nil, func(current runtime.Object, _ apistorage.ResponseMeta) (runtime.Object, *uint64, error) {
					obj = current
					m, _ := meta.Accessor(obj)
					m.SetLabels(map[string]string{"a": "b"})
					m.SetFinalizers([]string{})
					m.SetCreationTimestamp(metav1.Now())
					return obj, nil, nil
				}))
			}
		})
	}
	for _, kind := range []string{"Pod", "Event", "Deployment", "Node", "Job", "Service", "ConfigMap", "Lease"} {
		if !adopted[kind] {
			t.Errorf("no %s was taken without decoding", kind)
		}
	}
}

// shares reports whether two objects share their labels. A taken object shares them with the cached one.
func shares(a, b runtime.Object) bool {
	x, _ := meta.Accessor(a)
	y, _ := meta.Accessor(b)
	if len(x.GetLabels()) == 0 {
		return false
	}
	return reflect.ValueOf(x.GetLabels()).UnsafePointer() == reflect.ValueOf(y.GetLabels()).UnsafePointer()
}
