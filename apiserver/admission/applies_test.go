package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestApplies: a plugin does nothing for the resources for which the chain leaves it out.
func TestApplies(t *testing.T) {
	tried := 0
	for _, p := range plugins {
		if p.new == nil && p.configured == nil || p.applies == nil || strings.HasSuffix(p.name, "AdmissionPolicy") ||
			p.name == "PodSecurity" || p.name == "ResourceQuota" { // which rely on the chain
			continue
		}
		new := func() admission.Interface {
			if p.new != nil {
				return p.new(environmentOf(nil))
			}
			plugin, err := p.configured(environmentOf(nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			return plugin
		}
		plugin, applied := new(), 0
		for kind := range scheme.Scheme.AllKnownTypes() {
			obj, err := scheme.Scheme.New(kind)
			m, isObject := obj.(metav1.Object)
			if err != nil || !isObject {
				continue
			}
			m.SetName("x")
			m.SetNamespace("default")
			resource, _ := meta.UnsafeGuessKindToResource(kind)
			if p.applies(resource.GroupResource()) {
				applied++
				continue
			}
			for _, sub := range []string{"", "status", "scale", "binding", "approval", "resize", "ephemeralcontainers"} {
				for _, o := range operations {
					if !plugin.Handles(o) {
						continue
					}
					var old runtime.Object
					if o == admission.Update {
						old = obj.DeepCopyObject()
					}
					before := obj.DeepCopyObject()
					a := admission.NewAttributesRecord(obj, old, kind, "default", "x", resource, sub, o, nil, false, &user.DefaultInfo{Name: "ann"})
					if m, ok := plugin.(admission.MutationInterface); ok {
						err = m.Admit(t.Context(), a, nil)
					}
					if v, ok := plugin.(admission.ValidationInterface); ok && err == nil {
						err = v.Validate(t.Context(), a, nil)
					}
					if err != nil || !equality.Semantic.DeepEqual(obj, before) {
						t.Fatalf("%s has an effect on %s/%s, %s: %v", p.name, resource.GroupResource(), sub, o, err)
					}
					tried++
				}
			}
		}
		if applied == 0 {
			t.Errorf("%s applies to no resource", p.name)
		}
	}
	if tried < 1000 {
		t.Errorf("only %d requests", tried)
	}
}
