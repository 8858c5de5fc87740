package equality_test

import (
	"math/rand"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/apiserver/equality"
)

// TestRandomObjects compares objects of all kinds with copies, and with copies that differ in one value.
func TestRandomObjects(t *testing.T) {
	source := rand.New(rand.NewSource(1))
	random := fuzzer.FuzzerFor(metafuzzer.Funcs, source, scheme.Codecs)
	differing := 0
	for gvk := range scheme.Scheme.AllKnownTypes() {
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		random.Fill(obj)
		check(t, obj, obj.DeepCopyObject())
		for range 20 {
			other := obj.DeepCopyObject()
			v := reflect.ValueOf(other).Elem()
			for v.Kind() == reflect.Struct && v.NumField() > 0 && source.Intn(8) > 0 {
				next := v.Field(source.Intn(v.NumField()))
				for (next.Kind() == reflect.Pointer && !next.IsNil()) || (next.Kind() == reflect.Slice && next.Len() > 0) {
					if next.Kind() == reflect.Pointer {
						next = next.Elem()
					} else {
						next = next.Index(source.Intn(next.Len()))
					}
				}
				if !next.CanSet() {
					break
				}
				v = next
			}
			if source.Intn(2) == 0 {
				v.SetZero()
			} else {
				random.Fill(v.Addr().Interface())
			}
			if !check(t, obj, other) {
				differing++
			}
		}
	}
	if differing < 1000 {
		t.Errorf("only %d differ", differing)
	}
}

// check compares two objects, and returns whether they are identical.
func check(t *testing.T, a, b any) bool {
	t.Helper()
	want := reflect.DeepEqual(a, b)
	if got := equality.Identical(reflect.ValueOf(a), reflect.ValueOf(b)); got != want {
		t.Errorf("identical: %v, not %v: %+v and %+v", got, want, a, b)
	}
	if got, want := equality.Semantic(a, b), apiequality.Semantic.DeepEqual(a, b); got != want {
		t.Errorf("semantically equal: %v, not %v: %+v and %+v", got, want, a, b)
	}
	return want
}

// TestEqualButNotIdentical: nil is the same as empty, and quantities and times are compared by value.
func TestEqualButNotIdentical(t *testing.T) {
	list := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}
	}
	for _, pair := range [][2]any{
		{map[string]string{}, map[string]string(nil)},
		{[]string{}, []string(nil)},
		{list("1"), list("1000m")},
		{list("1"), list("2")},
		{list("1"), corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}},
		{metav1.Unix(1, 0), metav1.NewTime(metav1.Unix(1, 0).UTC())},
		{metav1.Unix(1, 0), metav1.Unix(1, 1)},
		{map[string]string{"a": ""}, map[string]string{"b": ""}},
		{map[string]string{"a": "b"}, map[string]string{"a": "b"}},
		{map[string]any{"a": []any{1.0, nil}}, map[string]any{"a": []any{1.0, nil}}},
		{map[string]any{"a": []any{1.0, nil}}, map[string]any{"a": []any{int64(1), nil}}},
		{(*string)(nil), new(string)},
		{1, "1"},
		{nil, nil},
		{nil, 1},
	} {
		check(t, pair[0], pair[1])
	}
}
