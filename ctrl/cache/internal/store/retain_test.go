package store

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/internal/heaptest"
)

// TestKeptStrings keeps strings of objects that were read, removes the objects, and expects that
// little else stays in memory: nothing but the metadata if those are of it, and no more than a piece
// of a large object.
func TestKeptStrings(t *testing.T) {
	const count, large = 20, 400 << 10
	metadata := func(o client.Object) (kept []string) {
		kept = append(kept, o.GetName(), o.GetNamespace(), string(o.GetUID()), o.GetResourceVersion())
		for key, value := range o.GetLabels() {
			kept = append(kept, key, value)
		}
		return kept
	}
	data := func(o client.Object) map[string]string {
		if u, ok := o.(*unstructured.Unstructured); ok {
			data, _, _ := unstructured.NestedStringMap(u.Object, "data")
			return data
		}
		return o.(*corev1.ConfigMap).Data
	}
	short := func(o client.Object) (kept []string) {
		for key, value := range data(o) {
			if len(value) < 64 {
				return append(metadata(o), key, value)
			}
		}
		return nil
	}
	long := func(n int) map[string]string {
		return map[string]string{"long": strings.Repeat(fmt.Sprintf("%08d", n), large/8), "short": fmt.Sprint("short ", n)}
	}
	for name, tt := range map[string]struct {
		data func(n int) map[string]string
		keep func(client.Object) []string
		most int // bytes an object
	}{
		"metadata of large objects":      {long, metadata, 256},
		"short strings beside long ones": {long, short, 1536},
		"short strings of many": {func(n int) map[string]string {
			data := map[string]string{}
			for i := range large / 256 {
				data[fmt.Sprintf("key %d of %d", i, n)] = fmt.Sprintf("a short value %d %d", i, n)
			}
			return data
		}, short, 1536},
		"metadata of small objects": {func(n int) map[string]string {
			return map[string]string{"a": strings.Repeat(fmt.Sprintf("%08d", n), 100), "b": strings.Repeat(fmt.Sprintf("%04d", n), 100)}
		}, metadata, 256},
	} {
		for _, unstructuredObjects := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unstructured %v", name, unstructuredObjects), func(t *testing.T) {
				var kept []string
				fill := func(keep bool) {
					s := New(ShareOnDemand)
					c := s.Scope("")
					for n := range count {
						var obj client.Object = &corev1.ConfigMap{
							ObjectMeta: metav1.ObjectMeta{
								Name: fmt.Sprint("a-config-map-", n), Namespace: "ns", UID: types.UID(fmt.Sprintf("6f0f9a52-7a1b-4000-8000-%012d", n)),
								ResourceVersion: fmt.Sprint(n + 1), Labels: map[string]string{fmt.Sprint("example.org/label-", n): fmt.Sprint("value-", n)},
							},
							Data: tt.data(n),
						}
						if unstructuredObjects {
							content, err := kruntime.DefaultUnstructuredConverter.ToUnstructured(obj)
							if err != nil {
								t.Fatal(err)
							}
							obj = &unstructured.Unstructured{Object: content}
						}
						c.Changed(obj)
						c.Pack()
						o, _ := s.Get(client.ObjectKeyFromObject(obj), false)
						if o.state.value.IsZero() {
							t.Fatal("the object is not packed")
						}
						into := reflect.New(reflect.TypeOf(obj).Elem())
						o.CopyInto(into.Elem())
						if keep {
							kept = append(kept, tt.keep(into.Interface().(client.Object))...)
						}
					}
				}
				fill(false) // builds codecs
				kept = make([]string, 0, 16*count)
				heap := heaptest.New(t)
				fill(true)
				took := int(heap.Held()) / count
				t.Logf("%d bytes an object", took)
				if took > tt.most {
					t.Errorf("%d bytes an object stay, want at most %d", took, tt.most)
				}
				runtime.KeepAlive(kept)
			})
		}
	}
}
