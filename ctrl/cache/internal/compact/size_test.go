package compact

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/internal/heaptest"
)

// podOf returns pod n of a template. Templates differ in name, hash, owner, image, args and env.
func podOf(template, n int) *corev1.Pod {
	p := pod(n)
	app, hash := fmt.Sprint("app-", template), fmt.Sprintf("%010x", template*2654435761)
	uid := fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", template)
	p.Name = fmt.Sprintf("%s-%s-%05d", app, hash, n)
	p.Labels["app.kubernetes.io/name"], p.Labels["pod-template-hash"] = app, hash
	p.Annotations["example.org/checksum"] = fmt.Sprintf("%032x", template)
	p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = app+"-"+hash, types.UID(uid)
	p.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(strings.Replace(p.ManagedFields[0].FieldsV1.GetRawString(),
		`{`, `{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"`+uid+`\"}":{}}},`, 1))
	c := &p.Spec.Containers[0]
	c.Image = fmt.Sprintf("registry.example.org/%s@sha256:%064x", app, template)
	c.Args = append(c.Args, "--name="+app)
	c.Env = append(c.Env, corev1.EnvVar{Name: "DATABASE_URL", Value: "postgres://db." + app + ".svc:5432/" + app})
	return p
}

// packGroups packs pods that come in groups of a template, one group after the other or by turns.
func packGroups(p *Packer, count, size int, byTurns bool) []Value {
	values := make([]Value, count)
	for n := range values {
		template := n / size
		if byTurns {
			template = n % (count / size)
		}
		values[n] = packOne(p, podOf(template, n))
	}
	return values
}

// sizeOf returns the size of a packer and its values, as they count it.
func sizeOf(p *Packer, values []Value) int {
	size := p.Size() + len(p.sketch)*int(unsafe.Sizeof(p.sketch[0])) + len(values)*int(unsafe.Sizeof(Value{}))
	for _, v := range values {
		size += v.Size()
	}
	return size
}

// TestSize compares the memory of values with the sizes that they count.
func TestSize(t *testing.T) {
	packGroups(NewPacker(), 2, 1, false) // builds codecs
	for _, group := range []int{1, 5, 100} {
		heap := heaptest.New(t)
		p := NewPacker()
		values := packGroups(p, 500, group, false)
		p.encoder, p.writer = encoder{}, writer{} // buffers, the same for all values
		held, size := int(heap.Held()), sizeOf(p, values)
		t.Logf("groups of %3d: %d bytes, by their own account %d, %.2f", group, held, size, float64(held)/float64(size))
		if held < size*95/100 || held > size*115/100 {
			t.Errorf("groups of %d take %d bytes, by their own account %d", group, held, size)
		}
		runtime.KeepAlive(values)
		runtime.KeepAlive(p)
	}
}

// TestGroups measures pods of one template: a few take no more than if each had a template of its own,
// and many take much less.
func TestGroups(t *testing.T) {
	took := func(size int, byTurns bool) float64 {
		p, count := NewPacker(), max(2000, size)
		return float64(sizeOf(p, packGroups(p, count, size, byTurns))) / float64(count)
	}
	for _, byTurns := range []bool{false, true} {
		alone := took(1, byTurns)
		t.Logf("by turns: %v, alone: %.0f bytes", byTurns, alone)
		for _, c := range []struct {
			size int
			most float64
		}{{2, 1.06}, {3, 1.06}, {4, 1.06}, {5, 1.06}, {6, 1.06}, {8, 1}, {16, 0.8}, {100, 0.4}, {10_000, 0.3}} {
			took := took(c.size, byTurns)
			t.Logf("groups of %5d: %.0f bytes, %.2f", c.size, took, took/alone)
			if took > c.most*alone {
				t.Errorf("a pod in a group of %d takes %.0f bytes, alone %.0f; it may be %.2f of that", c.size, took, alone, c.most)
			}
		}
	}
}

// TestShrink checks that a packer takes little when its many values are released, and still interns.
func TestShrink(t *testing.T) {
	heap := heaptest.New(t)
	p := NewPacker()
	var values []Value
	for n := range 3000 {
		values = append(values, packOne(p, podOf(n, n)))
	}
	largest := len(p.sketch)
	for _, v := range values {
		p.Release(v)
	}
	values = nil
	if largest <= minCounters || len(p.sketch) != minCounters {
		t.Errorf("there are %d counters, and were %d", len(p.sketch), largest)
	}
	if left := heap.Held(); left > 1<<17 {
		t.Errorf("%d bytes are left", left)
	}
	first := packOne(p, podOf(1, 1)).Size()
	for n := range 100 {
		values = append(values, packOne(p, podOf(1, n+2)))
	}
	if last := values[len(values)-1].Size(); last > first/2 {
		t.Errorf("the first pod takes %d bytes, and the last of its template %d", first, last)
	}
	runtime.KeepAlive(p)
}
