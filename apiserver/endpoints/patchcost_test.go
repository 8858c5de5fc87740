package endpoints

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func repeated(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

func TestPatchCost(t *testing.T) {
	long := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"list": make([]any, 100_000)}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Finalizers: make([]string, 4000)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: make([]corev1.EnvVar, 4000), Args: make([]string, 9000)}}}}
	for _, tc := range []struct {
		name    string
		kind    types.PatchType
		patch   string
		old     bool // the long list instead of the pod
		refused bool
	}{
		{"insertions", types.JSONPatchType, repeated(2000, `{"op":"add","path":"/spec/list/0","value":1}`), true, true},
		{"few insertions", types.JSONPatchType, repeated(1000, `{"op":"add","path":"/spec/list/0","value":1}`), true, false},
		{"removals", types.JSONPatchType, repeated(2000, `{"op":"remove","path":"/spec/list/-"}`), true, true},
		{"moves out of a list", types.JSONPatchType, repeated(2000, `{"op":"move","path":"/spec/a","from":"/spec/list/1"}`), true, true},
		{"replacements", types.JSONPatchType, repeated(9000, `{"op":"replace","path":"/spec/list/0","value":1}`), true, false},
		{"fields", types.JSONPatchType, repeated(9000, `{"op":"add","path":"/spec/a","value":1}`), true, false},
		{"a list of the patch", types.JSONPatchType, `[{"op":"add","path":"/a","value":` + repeated(100_000, "1") + `},` +
			repeated(2000, `{"op":"add","path":"/a/0","value":1}`)[1:], false, true},
		{"no patch", types.JSONPatchType, strings.Repeat("x", 5000), true, false},
		{"a list that merges", types.StrategicMergePatchType, `{"metadata":{"finalizers":` + repeated(1001, `"a"`) + `}}`, false, true},
		{"its order", types.StrategicMergePatchType, `{"metadata":{"$setElementOrder/finalizers":` + repeated(1001, `"a"`) + `}}`, false, true},
		{"a short one", types.StrategicMergePatchType, `{"metadata":{"finalizers":["a"]}}`, false, false},
		{"a list within a list", types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"c","env":` + repeated(1001, `{"name":"a"}`) + `}]}}`, false, true},
		{"a list of an element that is new", types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"d","env":` + repeated(4900, `{"name":"a"}`) + `}]}}`, false, false},
		{"a list that is replaced", types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"c","args":` + repeated(9000, `"a"`) + `}]}}`, false, false},
		{"a wide configuration", types.ApplyYAMLPatchType, wideConfiguration(50_001), true, true},
		{"a narrow configuration", types.ApplyYAMLPatchType, wideConfiguration(5000), true, false},
	} {
		err := checkPatchCost(tc.kind, []byte(tc.patch), pod)
		if tc.old {
			err = checkPatchCost(tc.kind, []byte(tc.patch), long)
		}
		if (err != nil) != tc.refused {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	short := repeated(9500, `{"op":"add","path":"/metadata/finalizers/-","value":"a"}`)
	if err := checkPatchCost(types.JSONPatchType, []byte(short), &corev1.Pod{}); err != nil {
		t.Errorf("insertions into a list that they make: %v", err)
	}
}

func wideConfiguration(n int) string {
	var b strings.Builder
	b.WriteString("spec:\n")
	for i := range n {
		fmt.Fprintf(&b, "  k%d: 1\n", i)
	}
	return b.String()
}

func TestLongestList(t *testing.T) {
	for document, want := range map[string]int{
		``: 0, `{}`: 0, `{"a":1,"b":2}`: 0, `[]`: 1, `[1,2,3]`: 3, `{"a":[1,[2,3,4,5],6]}`: 4, `["a,b\",[",{"c":1,"d":2}]`: 2, `]]`: 0,
	} {
		if got := longestList([]byte(document)); got != want {
			t.Errorf("%s: %d, want %d", document, got, want)
		}
	}
}

// TestObjectsAreCounted: a document of very many objects that take few bytes is refused before it is decoded.
func TestObjectsAreCounted(t *testing.T) {
	containers := func(element []byte, n int) string {
		field := append(binary.AppendUvarint([]byte{2<<3 | 2}, uint64(len(element))), element...)
		spec := bytes.Repeat(field, n)
		pod := append(binary.AppendUvarint([]byte{2<<3 | 2}, uint64(len(spec))), spec...)
		return "k8s\x00" + string(append(binary.AppendUvarint([]byte{2<<3 | 2}, uint64(len(pod))), pod...))
	}
	const protobuf = "application/vnd.kubernetes.protobuf"
	for _, tc := range []struct {
		name, kind, body string
		refused          bool
	}{
		{"objects", "application/json", repeated(maxObjects+1, "{}"), true},
		{"nulls", "application/merge-patch+json", repeated(maxObjects+1, "null"), true},
		{"fewer objects", "application/json", repeated(maxObjects, "{}"), false},
		{"objects in a text", "application/json", `"` + strings.Repeat(`{null\"`, maxObjects+1) + `"`, false},
		{"texts", "application/json", repeated(2*maxObjects, `"n"`), false},
		{"objects of YAML", "application/yaml", repeated(maxObjects+1, "{}"), true},
		{"messages", protobuf, containers(nil, maxObjects+2), true},
		{"small messages", protobuf, containers([]byte{10, 1, 'a'}, maxObjects+2), true},
		{"fewer messages", protobuf, containers(nil, 1000), false},
		{"messages of some size", protobuf, containers(bytes.Repeat([]byte("a"), 20), maxObjects), false},
		{"no message", protobuf, "k8s\x00" + strings.Repeat("\xff", 100), false},
	} {
		if err := checkObjects(tc.kind, []byte(tc.body)); (err != nil) != tc.refused {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
