package zoo

import (
	"context"
	"maps"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/lab"
)

// TestAbsentField: no step sets the labels of a Widget. The lab does, and finds the operator that never removes them.
func TestAbsentField(t *testing.T) {
	crd := definition()
	text := &apiextensionsv1.JSONSchemaProps{Type: "string"}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["labels"] =
		apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: text}}
	for name, right := range map[string]bool{"mistake": false, "twin": true} {
		t.Run(name, func(t *testing.T) {
			op := operator(&animal{reconcile: keepLabels}, right, nil)
			op.CRDs = []*apiextensionsv1.CustomResourceDefinition{crd}
			report, err := lab.Find(t, op, lab.Scenario{Steps: []lab.Step{lab.Create(newWidget("web", WidgetSpec{Size: 1}))},
				Only: []lab.Fault{lab.Change}, Schedules: 20})
			if err != nil {
				t.Fatal(err)
			}
			if (len(report.Findings) == 0) != right {
				t.Errorf("%d findings", len(report.Findings))
			}
			for _, f := range report.Findings {
				if f.Check != "convergence" || !strings.Contains(f.Schedule[0].String(), "labels") {
					t.Errorf("%s: %s\n%s", f.Check, f.Message, f.Story)
				}
			}
		})
	}
}

// keepLabels gives the part of a Widget the labels in its spec. Labels that are no longer there stay, unless the operator is the twin.
func keepLabels(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(groupVersion.WithKind("Widget"))
	if err := e.server.Get(ctx, client.ObjectKeyFromObject(w), current); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	wanted, _, err := unstructured.NestedStringMap(current.Object, "spec", "labels")
	if err != nil {
		return ctrl.Result{}, err
	}
	part := newPart(w, w.Name)
	data := part.Data
	_, err = controllerutil.CreateOrUpdate(ctx, e, part, func() error {
		if e.right || part.Labels == nil {
			part.Labels = map[string]string{}
		}
		maps.Copy(part.Labels, wanted)
		part.Data = data
		return controllerutil.SetControllerReference(w, part, scheme)
	})
	return ctrl.Result{}, err
}
