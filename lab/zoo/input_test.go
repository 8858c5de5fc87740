package zoo

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/ctrl/client"
	"flyball.dev/lab"
)

// TestBadInput gives the lab operators and scenarios that it can say nothing about.
func TestBadInput(t *testing.T) {
	unknown := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "zoo.flyball.dev/v1", "kind": "Gadget",
		"metadata": map[string]any{"namespace": "default", "name": "web"}}}
	create := []lab.Step{lab.Create(newWidget("web", WidgetSpec{Size: 1}))}
	for _, tc := range []struct {
		name     string
		animal   string
		scenario lab.Scenario
		want     string // in the error, or in the finding of the clean run
	}{
		{"no rest", "two owners", two(nil), "the world does not come to rest: operator update configmaps default/shared"},
		{"unknown kind in a step", "leak", lab.Scenario{Steps: []lab.Step{lab.Create(unknown)}}, `no matches for kind "Gadget"`},
		{"unknown kind in the objects", "leak", lab.Scenario{Objects: []client.Object{unknown}, Steps: create}, `no matches for kind "Gadget"`},
		{"unknown controller", "leak", lab.Scenario{Steps: create, Controllers: []string{"gadget-controller"}}, `there is no controller "gadget-controller"`},
		{"no steps", "leak", lab.Scenario{}, "there is no point at which a fault makes sense"},
		{"unknown fault", "leak", lab.Scenario{Steps: create, Only: []lab.Fault{"flood"}}, `there is no fault "flood"`},
		{"unknown check", "leak", lab.Scenario{Steps: create, Without: []string{"gravity"}}, `there is no check "gravity"`},
		{"no fault", "leak", lab.Scenario{Steps: create, Only: []lab.Fault{lab.Depose}}, "there is no point at which a fault makes sense"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "-"), func(t *testing.T) {
			op, _ := explored(find(t, tc.animal), tc.animal != "two owners")
			report, err := lab.Find(t, op, tc.scenario)
			text := ""
			switch {
			case err != nil:
				text = err.Error()
			case len(report.Findings) == 1 && len(report.Findings[0].Schedule) == 0:
				text = report.Findings[0].Message
			}
			if !strings.Contains(text, tc.want) {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}
