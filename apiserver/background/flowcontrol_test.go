package background

import (
	"testing"
	"testing/synctest"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestFlowControlIsKept: missing objects are created again, mandatory specs are corrected, and suggested
// ones only if nobody wants to keep the change.
func TestFlowControlIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeping(t, Authentication{})
		levels, schemas := flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations"), flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas")
		for name, gvr := range map[string]schema.GroupVersionResource{"exempt": levels, "system": levels, "catch-all": schemas, "probes": schemas} {
			k.delete(gvr, "", name)
			if k.get(gvr, "", name) == nil {
				t.Errorf("%s %s has not come back", gvr.Resource, name)
			}
		}
		precedence := func() int32 {
			t.Helper()
			return k.get(schemas, "", "probes").(*flowcontrolv1.FlowSchema).Spec.MatchingPrecedence
		}
		set := func(precedence int32, annotation string) {
			t.Helper()
			k.change(schemas, "", "probes", func(obj runtime.Object) {
				s := obj.(*flowcontrolv1.FlowSchema)
				s.Spec.MatchingPrecedence = precedence
				s.Annotations = map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: annotation}
			})
		}
		original := precedence()
		if set(77, "true"); precedence() != original {
			t.Error("a suggested schema that may be updated was not")
		}
		if set(77, "false"); precedence() != 77 {
			t.Error("a suggested schema that may not be updated was")
		}
		if set(78, "what"); precedence() != 78 || k.get(schemas, "", "probes").GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey] != "false" {
			t.Error("a suggested schema that somebody has changed was updated")
		}
		k.change(levels, "", "exempt", func(obj runtime.Object) {
			p := obj.(*flowcontrolv1.PriorityLevelConfiguration)
			p.Spec.Exempt.NominalConcurrencyShares = new(int32(5))
			p.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = "false"
		})
		exempt := k.get(levels, "", "exempt").(*flowcontrolv1.PriorityLevelConfiguration)
		if *exempt.Spec.Exempt.NominalConcurrencyShares != 5 || exempt.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] != "true" {
			t.Errorf("the exempt level is %+v", exempt)
		}
		for name, annotations := range map[string]map[string]string{"mine": nil, "old": {flowcontrolv1.AutoUpdateAnnotationKey: "true"}} {
			s := k.get(schemas, "", "probes").DeepCopyObject().(*flowcontrolv1.FlowSchema)
			s.ObjectMeta = metav1.ObjectMeta{Name: name, Annotations: annotations}
			if created, err := k.seed(schemas, s); err != nil || !created {
				t.Fatal(err)
			}
			if is := k.get(schemas, "", name); (is == nil) != (annotations != nil) {
				t.Errorf("%s is %v", name, is)
			}
		}
	})
}
