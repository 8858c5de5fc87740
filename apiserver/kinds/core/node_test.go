package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestProviderID has an error with the origin that kube-apiserver's has.
func TestProviderID(t *testing.T) {
	old := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "a"}}
	for _, c := range []struct{ id, why string }{{"b", "field cannot be modified once set"}, {"", "field cannot be cleared once set"}} {
		errs := validateNodeUpdate(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: c.id}}, old)
		if len(errs) != 1 || errs[0].Field != "spec.providerID" || errs[0].Detail != c.why || errs[0].Origin != "update" {
			t.Errorf("%q: %v", c.id, errs)
		}
	}
}
