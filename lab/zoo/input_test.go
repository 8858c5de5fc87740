package zoo

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/lab"
)

// gadget is a kind that no scheme has.
type gadget struct{ corev1.ConfigMap }

// DeepCopyObject implements runtime.Object.
func (g *gadget) DeepCopyObject() runtime.Object { return &gadget{*g.ConfigMap.DeepCopy()} }

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
		advice   string // there, too
	}{
		{"no rest", "two owners", two(nil), "the world does not come to rest: operator update configmaps default/shared", ""},
		{"unknown kind in a step", "leak", lab.Scenario{Steps: []lab.Step{lab.Create(unknown)}}, `no matches for kind "Gadget"`, "Name the file of its CustomResourceDefinition in CRDPaths"},
		{"unknown kind in the objects", "leak", lab.Scenario{Objects: []client.Object{unknown}, Steps: create}, `no matches for kind "Gadget"`, "Name the file of its CustomResourceDefinition in CRDPaths"},
		{"unknown type", "leak", lab.Scenario{Steps: []lab.Step{lab.Create(&gadget{})}}, "no kind is registered for the type zoo.gadget", "Set Operator.Scheme"},
		{"unknown controller", "leak", lab.Scenario{Steps: create, Controllers: []string{"gadget-controller"}}, `there is no controller "gadget-controller"`, ""},
		{"no steps", "leak", lab.Scenario{}, "there is no point at which a fault makes sense", ""},
		{"unknown fault", "leak", lab.Scenario{Steps: create, Only: []lab.Fault{"flood"}}, `there is no fault "flood"`, ""},
		{"unknown check", "leak", lab.Scenario{Steps: create, Without: []string{"gravity"}}, `there is no check "gravity"`, ""},
		{"no fault", "leak", lab.Scenario{Steps: create, Only: []lab.Fault{lab.Depose}}, "there is no point at which a fault makes sense", ""},
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
			if !strings.Contains(text, tc.want) || !strings.Contains(text, tc.advice) {
				t.Errorf("got %q, want %q and %q", text, tc.want, tc.advice)
			}
		})
	}
}

// TestUnfit gives the lab operators that no clean run is right for.
func TestUnfit(t *testing.T) {
	for _, tc := range []struct {
		name      string
		reconcile reconciler
		want      []string
	}{
		{"busy", func(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
			result, err := quiet(ctx, e, w)
			result.RequeueAfter = time.Millisecond
			return result, err
		}, []string{"hot loop", "the controller widget of operator has reconciled default/web 1000 times", "and nothing has changed"}},
		{"depends on others", func(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
			pods := &corev1.PodList{}
			if err := e.List(ctx, pods); err != nil {
				return ctrl.Result{}, err
			}
			for i := range pods.Items {
				if err := ensurePart(ctx, e, w, fmt.Sprint(w.Name, "-", i)); err != nil {
					return ctrl.Result{}, err
				}
			}
			return ctrl.Result{}, setReady(ctx, e, w)
		}, []string{"two clean runs end in different states: ConfigMap default/*: 3 objects, want absent", "set Scenario.Rest", "must follow from its custom resources"}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "-"), func(t *testing.T) {
			op, scenario := explored(&animal{name: tc.name, reconcile: tc.reconcile}, true)
			report, err := lab.Find(t, op, scenario)
			text := ""
			switch {
			case err != nil:
				text = err.Error()
			case len(report.Findings) == 1 && len(report.Findings[0].Schedule) == 0:
				text = report.Findings[0].Check + ": " + report.Findings[0].Message
			}
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("got %q, want %q", text, want)
				}
			}
		})
	}
}
