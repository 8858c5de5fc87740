package reconciles

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestCausedBy(t *testing.T) {
	deployment, name := schema.GroupKind{Group: "apps", Kind: "Deployment"}, types.NamespacedName{Namespace: "default", Name: "web"}
	for cause, want := range map[string]bool{
		"updated Deployment.apps default/web at 12":                    true,
		"updated Deployment.apps default/web at 100 (status.replicas)": true,
		"updated Deployment.apps default/web at 9":                     false,
		"updated Deployment.apps default/other at 12":                  false,
		"updated Service default/web at 12":                            false,
		"requeue":                                                      false,
	} {
		r := Reconcile{Causes: []string{"retry", cause}}
		if got := r.causedBy(deployment, name, "12"); got != want {
			t.Errorf("%s: %v, want %v", cause, got, want)
		}
	}
}
