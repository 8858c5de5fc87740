package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEqualChanges: equal changes are written once, also if another change is between them.
func TestEqualChanges(t *testing.T) {
	pod := Change{Action: Create, APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web-*", Owner: "ReplicaSet/web"}
	other := Change{Action: Create, APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "settings"}
	var out strings.Builder
	if err := (&Plan{Changes: []Change{pod, other, pod}}).WriteText(&out, false); err != nil {
		t.Fatal(err)
	}
	var titles []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "+ ") {
			titles = append(titles, strings.TrimSpace(line))
		}
	}
	want := []string{"+ create Pod default/web-* of ReplicaSet/web (2 of them)", "+ create ConfigMap default/settings"}
	if d := cmp.Diff(want, titles); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
