package kinds

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestPlacesHaveTheirNames(t *testing.T) {
	list := specAt.at("containers")
	item := list.item(3)
	limits := item.at("limits")
	entry := limits.entry("cpu")
	for got, want := range map[*field.Path]string{
		specAt.path():      "spec",
		item.path():        "spec.containers[3]",
		item.of("name"):    "spec.containers[3].name",
		entry.path():       "spec.containers[3].limits[cpu]",
		root.of("data"):    "data",
		entry.of(""):       "spec.containers[3].limits[cpu]",
		metadataAt.of("x"): "metadata.x",
	} {
		if got.String() != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
