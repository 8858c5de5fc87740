package memsize

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/internal/heaptest"
)

// custom is an object of a type that only a project has.
type custom struct {
	corev1.ConfigMap
	Spec   map[string][]string
	Nested []struct{ A, B any }
}

func (c *custom) DeepCopyObject() runtime.Object {
	out := &custom{ConfigMap: *c.ConfigMap.DeepCopy(), Spec: map[string][]string{}}
	for k, v := range c.Spec {
		out.Spec[k] = append([]string(nil), v...)
	}
	for _, n := range c.Nested {
		out.Nested = append(out.Nested, struct{ A, B any }{fmt.Sprint(n.A), n.B})
	}
	return out
}

// TestOf compares the sizes of objects with what a copy allocates. A copy shares the strings, which are short here.
func TestOf(t *testing.T) {
	labels := map[string]string{}
	content := map[string]any{}
	for i := range 100 {
		labels[fmt.Sprint("l", i)] = "v"
		content[fmt.Sprint("f", i)] = []any{map[string]any{"a": int64(i), "b": "c"}, "d", true}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels, CreationTimestamp: metav1.Now()}}
	for range 10 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "c", Args: []string{"a", "b"}, SecurityContext: &corev1.SecurityContext{}})
	}
	own := &custom{Spec: map[string][]string{}}
	for i := range 50 {
		own.Spec[fmt.Sprint(i)] = []string{"a", "b", "c"}
		own.Nested = append(own.Nested, struct{ A, B any }{"x", int64(1 << 40)})
	}
	for _, obj := range []runtime.Object{pod, own, &unstructured.Unstructured{Object: content}, &corev1.Pod{}} {
		size := Of(obj, math.MaxInt)
		copied := allocated(t, func() { sink = obj.DeepCopyObject() })
		t.Logf("%T: %d, and a copy is %d", obj, size, copied)
		if size < copied*3/4 || size > 3*copied {
			t.Errorf("%T is taken for %d bytes, and a copy of it has %d", obj, size, copied)
		}
	}
	long := &corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", 1<<20)}}
	if size := Of(long, math.MaxInt); size < 1<<20 || size > 1<<20+4<<10 {
		t.Errorf("a string of 1 MiB is taken for %d", size)
	}
}

var sink any

// allocated returns how many bytes a call of f allocates.
func allocated(t *testing.T, f func()) int {
	const n = 100
	f()
	m := heaptest.New(t)
	for range n {
		f()
	}
	return int(m.Allocated()) / n
}

// TestLimit: the walk ends at the limit, also if the value refers to itself.
func TestLimit(t *testing.T) {
	type loop struct{ next *loop }
	l := &loop{}
	l.next = l
	for _, value := range []any{l, make([]string, 1<<20), map[string]any{"a": make([]any, 1000)}} {
		if size := Of(value, 1000); size <= 1000 {
			t.Errorf("a %T is taken for %d", value, size)
		}
	}
	if size := Of(nil, 1); size != 0 {
		t.Errorf("nil is taken for %d", size)
	}
	if size := Of(time.Now(), 1000); size > 32 {
		t.Errorf("a time is taken for %d", size)
	}
}
