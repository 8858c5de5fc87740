package fieldrules

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestPaths(t *testing.T) {
	list := Spec.Child("containers")
	item := list.Index(3)
	limits := item.Child("limits")
	entry := limits.Key("cpu")
	for got, want := range map[*field.Path]string{
		Spec.Field():             "spec",
		item.Field():             "spec.containers[3]",
		item.ChildField("name"):  "spec.containers[3].name",
		entry.Field():            "spec.containers[3].limits[cpu]",
		Root.ChildField("data"):  "data",
		entry.ChildField(""):     "spec.containers[3].limits[cpu]",
		Metadata.ChildField("x"): "metadata.x",
	} {
		if got.String() != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
