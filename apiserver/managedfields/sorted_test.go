package managedfields

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// TestWideMapsAreVisitedInOrder: in the order of their keys the fields of a map are appended to a set instead of
// inserted into it, whatever visits them.
func TestWideMapsAreVisitedInOrder(t *testing.T) {
	wide := map[string]any{}
	for i := range 5000 {
		wide[fmt.Sprint(i)] = int64(i)
	}
	v := typedOf(t, map[string]any{"spec": map[string]any{"wide": wide, "list": []any{map[string]any{"a": wide}}}})
	narrow := typedOf(t, map[string]any{"spec": map[string]any{"b": "c"}})
	if !ExtentOf(v.AsValue().Unstructured()).Wide() || ExtentOf(narrow.AsValue().Unstructured()).Wide() {
		t.Fatal("the wide object is not told from the narrow one")
	}
	sorted := Sorted(v)
	spec, _ := sorted.AsValue().AsMap().Get("spec")
	list, _ := spec.AsMap().Get("list")
	inList, _ := list.AsList().At(0).AsMap().Get("a")
	inMap, _ := spec.AsMap().Get("wide")
	for name, m := range map[string]value.Map{"a map": inMap.AsMap(), "a map in a list": inList.AsMap()} {
		visits := map[string]func(func(key string)){
			"iterate": func(visit func(string)) {
				m.IterateUsing(value.NewFreelistAllocator(), func(key string, _ value.Value) bool { visit(key); return true })
			},
			"zip": func(visit func(string)) {
				value.MapZip(m, value.NewValueInterface(wide).AsMap(), value.Unordered, func(key string, _, _ value.Value) bool { visit(key); return true })
			},
			"zip with nothing": func(visit func(string)) {
				value.MapZip(nil, m, value.Unordered, func(key string, _, _ value.Value) bool { visit(key); return true })
			},
		}
		for how, all := range visits {
			var keys []string
			all(func(key string) { keys = append(keys, key) })
			if len(keys) != len(wide) || !slices.IsSorted(keys) {
				t.Errorf("%s, %s: %d keys, sorted: %t", name, how, len(keys), slices.IsSorted(keys))
			}
		}
	}
	compareSorted(t, v, sorted, narrow)
}

// compareSorted compares what structured-merge-diff makes of a value and of the sorted one.
func compareSorted(t *testing.T, plain, sorted, other *typed.TypedValue) {
	t.Helper()
	a, err := plain.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := sorted.ToFieldSet(); err != nil || !a.Equals(b) {
		t.Errorf("the sets of fields differ: %v", err)
	}
	for _, pair := range [][2]*typed.TypedValue{{sorted, other}, {other, sorted}, {sorted, plain}} {
		without := pair
		for i := range without {
			if without[i] == sorted {
				without[i] = plain
			}
		}
		want, err := without[0].Compare(without[1])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pair[0].Compare(pair[1]); err != nil || !sameComparison(got, want) {
			t.Errorf("the comparisons differ: %v", err)
		}
		merged, err := pair[0].Merge(pair[1])
		if err != nil {
			t.Fatal(err)
		}
		expected, err := without[0].Merge(without[1])
		if err != nil || !value.Equals(merged.AsValue(), expected.AsValue()) {
			t.Errorf("the merged values differ: %v", err)
		}
	}
}

func typedOf(t *testing.T, content map[string]any) *typed.TypedValue {
	t.Helper()
	content["apiVersion"], content["kind"] = "example.com/v1", "Widget"
	v, err := managedfields.NewDeducedTypeConverter().ObjectToTyped(&unstructured.Unstructured{Object: content})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
