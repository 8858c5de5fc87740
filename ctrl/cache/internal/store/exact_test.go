package store

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/dump"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
)

// custom is a custom resource with values that JSON can write in several ways.
type custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Limits   corev1.ResourceList     `json:"limits,omitempty"`
	Requests []corev1.ResourceList   `json:"requests,omitempty"`
	At       *metav1.Time            `json:"at,omitempty"`
	Micro    *metav1.MicroTime       `json:"micro,omitempty"`
	Plain    *time.Time              `json:"plain,omitempty"`
	Plains   []time.Time             `json:"plains,omitempty"`
	For      *metav1.Duration        `json:"for,omitempty"`
	Port     *intstr.IntOrString     `json:"port,omitempty"`
	Raw      *runtime.RawExtension   `json:"raw,omitempty"`
	Number   stdjson.Number          `json:"number,omitempty"`
	Numbers  []float64               `json:"numbers,omitempty"`
	Any      map[string]any          `json:"any,omitempty"`
	Strings  []string                `json:"strings,omitempty"`
	Map      map[string][]string     `json:"map,omitempty"`
	Replicas *int32                  `json:"replicas,omitempty"`
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
	Bytes    []byte                  `json:"bytes,omitempty"`
}

func (c *custom) DeepCopyObject() runtime.Object {
	out := *c
	out.ObjectMeta = *c.ObjectMeta.DeepCopy()
	out.Limits = c.Limits.DeepCopy()
	out.Requests = slices.Clone(c.Requests)
	out.At, out.Micro, out.Raw, out.Template = c.At.DeepCopy(), c.Micro.DeepCopy(), c.Raw.DeepCopy(), c.Template.DeepCopy()
	out.Plain, out.For, out.Port, out.Replicas = ptr.To(*c.Plain), ptr.To(*c.For), ptr.To(*c.Port), ptr.To(*c.Replicas)
	out.Plains, out.Numbers, out.Strings, out.Bytes = slices.Clone(c.Plains), slices.Clone(c.Numbers), slices.Clone(c.Strings), slices.Clone(c.Bytes)
	out.Any, out.Map = runtime.DeepCopyJSON(c.Any), maps.Clone(c.Map)
	return &out
}

const customContent = `
	"limits": {"a": 0.5, "b": "1000m", "c": "1024Mi", "d": 1.0, "e": 1e3, "f": "0.1n", "g": "123456789012345678901234567890", "h": 2, "i": "1.50", "j": "-0", "k": "1Gi"},
	"requests": [{}, {"cpu": 0.5}, {"cpu": "500m"}],
	"at": "2026-01-02T03:04:05.123456789+05:45", "micro": "2026-01-02T03:04:05.123456-07:00",
	"plain": "2026-01-02T03:04:05.000000001+05:45", "plains": ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05+01:00", "0001-01-01T00:00:00Z"],
	"for": "1h0m0.5s", "port": "80", "raw": {"b": 1.0, "a": [ 1 ]}, "number": "1.0", "numbers": [1.0, 1, 1e21, -0.0],
	"any": {"int": 1, "float": 1.0, "large": 1e21, "null": null, "map": {}, "list": []}, "strings": [], "map": {"nil": null, "empty": [], "one": [""]}, "replicas": 0,
	"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}], "nodeSelector": {}}}, "bytes": ""`

// TestExact decodes objects as a client does, and expects that each way to read them from the store
// returns what was decoded, in every field, before and after they are packed, from an event, from a
// list and from the response to a write, and as the old and as the new object of a change.
func TestExact(t *testing.T) {
	for name, empty := range map[string]func() client.Object{
		"typed":        func() client.Object { return &custom{} },
		"unstructured": func() client.Object { return &unstructured.Unstructured{} },
	} {
		t.Run(name, func(t *testing.T) {
			decode := func(version int) client.Object {
				obj := empty()
				var into any = obj
				if u, ok := obj.(*unstructured.Unstructured); ok {
					into = &u.Object
				}
				data := fmt.Sprintf(`{"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "%d", "creationTimestamp": null, "annotations": {}},%s}`, version, customContent)
				if err := json.Unmarshal([]byte(data), into); err != nil {
					t.Fatal(err)
				}
				return obj
			}
			check := func(what string, got client.Object, version int) {
				t.Helper()
				if want := decode(version); !reflect.DeepEqual(got, want) || dump.ForHash(got) != dump.ForHash(want) {
					t.Fatalf("%s: got\n%s\nwant\n%s", what, dump.Pretty(got), dump.Pretty(want))
				}
			}
			for _, sharing := range []Sharing{ShareOnDemand, ShareAll, ShareNone} {
				s := New(sharing)
				c := s.Scope("")
				key := types.NamespacedName{Namespace: "ns", Name: "a"}
				read := func(what string, version int) {
					t.Helper()
					for _, watched := range []bool{false, true} {
						o, _ := s.Get(key, watched)
						check(what+", copied", o.Copy(), version)
						check(what+", shared", o.Shared(), version)
						into := empty()
						o.CopyInto(reflect.ValueOf(into).Elem())
						check(what+", copied into", into, version)
					}
				}
				changed := func(change Change, from, to int) {
					t.Helper()
					for range 2 { // before and after it is packed
						if change.Old != nil {
							check("old", change.Old.Object(), from)
							check("old, packed", change.Old.Packed().Object(), from)
						}
						check("new", change.New.Object(), to)
						check("new, packed", change.New.Packed().Object(), to)
						c.Pack()
					}
				}
				c.Begin()
				changed(c.Listed(decode(1)), 0, 1)
				read("listed", 1)
				c.Complete("1")
				change := c.Changed(decode(2))
				read("changed", 2)
				changed(change, 1, 2)
				o, _ := s.Get(key, false)
				if o, _ := s.Get(key, false); o.state.value.IsZero() {
					t.Fatal("the object is not packed")
				}
				read("packed", 2)
				s.Wrote(decode(3))
				w, _ := s.Get(key, false)
				check("written", w.Copy(), 3)
				check("before the write", o.Copy(), 2)
				changed(c.Changed(decode(3)), 2, 3)
				read("delivered", 3)
				changed(c.Changed(decode(4)), 3, 4)
				check("deleted", c.Deleted(decode(4)).Old.Object(), 4)
			}
		})
	}
}
