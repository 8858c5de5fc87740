package apply

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Differences describes the fields in which an object has changed: their paths and the change. It ignores fields that
// only the API server sets.
func Differences(before, after *unstructured.Unstructured) []string {
	return differences("", content(before), content(after))
}

// content returns an object without the fields that only the API server sets.
func content(u *unstructured.Unstructured) map[string]any {
	object := u.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	return object.Object
}

// differences compares two values at a path.
func differences(path string, before, after any) []string {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	oldMap, ok := before.(map[string]any)
	newMap, alsoOk := after.(map[string]any)
	if ok && alsoOk {
		var all []string
		keys := slices.Collect(maps.Keys(oldMap))
		for key := range newMap {
			if _, ok := oldMap[key]; !ok {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			all = append(all, entry(path+"."+key, oldMap, newMap, key)...)
		}
		return all
	}
	oldList, ok := before.([]any)
	newList, alsoOk := after.([]any)
	if ok && alsoOk && len(oldList) == len(newList) {
		var all []string
		for i := range oldList {
			all = append(all, differences(path+index(newList[i], i), oldList[i], newList[i])...)
		}
		return all
	}
	return []string{path[1:] + " changed"}
}

// entry compares the values of a key that is in one or both maps.
func entry(path string, before, after map[string]any, key string) []string {
	was, had := before[key]
	is, has := after[key]
	switch {
	case !had:
		return []string{path[1:] + " added"}
	case !has:
		return []string{path[1:] + " removed"}
	}
	return differences(path, was, is)
}

// index returns the index of a list element in a path: its name if it has one, and i otherwise.
func index(element any, i int) string {
	if m, ok := element.(map[string]any); ok {
		if name, ok := m["name"].(string); ok {
			return "[" + name + "]"
		}
	}
	return fmt.Sprintf("[%d]", i)
}
