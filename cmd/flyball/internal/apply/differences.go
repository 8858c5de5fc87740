package apply

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/internal/objectdiff"
)

// Differences describes the fields in which an object has changed: their paths and the change. It ignores fields that
// only the API server sets.
func Differences(before, after *unstructured.Unstructured) []string {
	var all []string
	for _, c := range objectdiff.Changes(content(before), content(after)) {
		what := " changed"
		switch {
		case c.Before == nil:
			what = " added"
		case c.Value == nil:
			what = " removed"
		}
		all = append(all, c.Path+what)
	}
	slices.Sort(all)
	return all
}

// content returns an object without the fields that only the API server sets.
func content(u *unstructured.Unstructured) *unstructured.Unstructured {
	object := u.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	return object
}
