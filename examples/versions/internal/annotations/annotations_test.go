package annotations

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTakeJSON(t *testing.T) {
	type value struct {
		N int `json:"n"`
	}
	for _, tt := range []struct {
		annotation string
		want       *value
	}{
		{`{"n":3}`, &value{3}},
		{`{}`, &value{}},
		{`null`, nil},
		{``, nil},
		{`3`, nil},
		{`{"n":"three"}`, nil},
		{`{"n":3,"m":4}`, nil},
		{`{"n":3} and more`, nil},
	} {
		obj := &metav1.ObjectMeta{Annotations: map[string]string{"k": tt.annotation, "other": "stays"}}
		got := TakeJSON[value](obj, "k")
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%q is %v", tt.annotation, got)
		}
		left, ok := obj.Annotations["k"]
		if ok != (tt.want == nil) || ok && left != tt.annotation || obj.Annotations["other"] != "stays" {
			t.Errorf("%q leaves %q", tt.annotation, obj.Annotations)
		}
	}
}

// TestAlias checks that neither function changes a map that another object may share.
func TestAlias(t *testing.T) {
	shared := map[string]string{"a": "1"}
	obj := &metav1.ObjectMeta{Annotations: shared}
	Put(obj, "b", "2")
	if got := Take(obj, "a"); got != "1" || len(shared) != 1 || shared["a"] != "1" {
		t.Errorf("took %q, the shared map is %v", got, shared)
	}
	if got := Take(obj, "b"); got != "2" || obj.Annotations != nil {
		t.Errorf("took %q, %v are left", got, obj.Annotations)
	}
}
