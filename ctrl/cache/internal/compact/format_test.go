package compact

import (
	"encoding/hex"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFormat packs the pod of the example in FORMAT.md and compares the bytes, and those once its
// containers are interned.
func TestFormat(t *testing.T) {
	p := NewPacker()
	image := mark{text: "registry.example.org/web:1"}
	p.table.Add(p.hash(&image), entry{Text: image.text}, 0, 0)
	in := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-0", Namespace: "shop", UID: "u-17", ResourceVersion: "42",
			Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "web", Image: image.text}},
			TerminationGracePeriodSeconds: new(int64(30)),
		},
	}
	given := []string{"shop", "web-0"}
	header, typ := []string{"u-17", "42", "app", "web"}, TypeOf(reflect.TypeFor[corev1.Pod]())
	check := func(want string) {
		t.Helper()
		v, ok := p.Pack(given, header, typ, in)
		if !ok {
			t.Fatal("the pod is not packed")
		}
		if got := hex.EncodeToString([]byte(v.code)); got != want {
			t.Errorf("the pod is packed as\n%s\nFORMAT.md says\n%s", got, want)
		}
		if v.head != "u-1742appweb" || v.apart != nil {
			t.Errorf("the head is %q, and apart are %v", v.head, v.apart)
		}
		var out corev1.Pod
		u := p.View().Unpacker()
		defer u.Close()
		u.Unpack(v, given, typ, reflect.ValueOf(&out).Elem())
		equal(t, &out, in)
	}
	want := example(t)
	check(want)

	p.encode(header, typ, unsafe.Pointer(in))
	e := &p.encoder
	containers := slices.IndexFunc(e.marks, func(m mark) bool { return m.codec != nil && m.end == len(e.marks) })
	hash, _ := p.hashSubtree(e, containers)
	p.table.Add(hash, entry{Value: &subtree{
		codec: e.marks[containers].codec, packed: p.packSubtree(e, containers), threshold: 1 << 20,
	}}, 0, 0)
	p.reset()
	want = strings.Replace(want, "001701", "05", 1)
	want = strings.Replace(want, "1402010200", "14", 1)
	check(strings.Replace(want, "0e10", "0c0c", 1))
}

// example returns the bytes in FORMAT.md: the pairs of hex digits at the beginning of each line of
// the block that is marked as hex, in hex.
func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```hex\n")
	block, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatal("FORMAT.md has no example")
	}
	var all strings.Builder
	for line := range strings.Lines(block) {
		bytes, _, _ := strings.Cut(line, "  ")
		all.WriteString(strings.ReplaceAll(strings.TrimSpace(bytes), " ", ""))
	}
	return all.String()
}
