package cause

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestOf(t *testing.T) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("apps/v1")
	u.SetKind("Deployment")
	u.SetNamespace("default")
	u.SetName("web")
	u.SetResourceVersion("12")
	for want, obj := range map[string]any{
		"updated Deployment.apps default/web at 12": u,
		"updated n": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		"updated":   "something else",
	} {
		if got := Of(Updated, obj).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := Kind(99).String(); got != "cause 99" {
		t.Errorf("got %q", got)
	}
	for k := range Kinds {
		if k.String() == "" {
			t.Errorf("cause %d has no name", k)
		}
	}
}
