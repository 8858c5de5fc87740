package observe

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestReach forgets writes: versions up to the greatest one, and deletions, are forgotten for their kind alone.
func TestReach(t *testing.T) {
	a, b := &Type{GVK: schema.GroupVersionKind{Kind: "A"}}, &Type{GVK: schema.GroupVersionKind{Kind: "B"}}
	var first, r Reach
	for _, w := range []Write{
		{Verb: "update", Type: a, Version: "100"}, {Verb: "patch", Type: a, Version: "90"},
		{Verb: "update", Type: a, Version: "999", Err: "refused"}, {Verb: "update", Type: a, Version: "999", DryRun: true},
		{Verb: "delete", Type: b}, {Verb: "delete", Type: a, Err: "refused"},
	} {
		first.add(&w)
	}
	r.Merge(first)
	r.Merge(Reach{})
	for _, c := range []struct {
		typ     *Type
		version string
		deleted bool
		want    bool
	}{
		{a, "99", false, true}, {a, "100", false, true}, {a, "101", false, false}, {a, "101", true, false}, {a, "", false, true},
		{b, "1", false, false}, {b, "1", true, true},
	} {
		if got := r.Forgot(c.typ.GVK.GroupKind(), c.version, c.deleted); got != c.want {
			t.Errorf("version %q of %s, deleted %v: forgotten is %v", c.version, c.typ.GVK.Kind, c.deleted, got)
		}
	}
	r.add(&Write{Verb: "update", SubResource: "scale", Type: b})
	if !r.Forgot(b.GVK.GroupKind(), "12345", false) {
		t.Error("a write of an unknown version is not any version")
	}
	copied := r.clone()
	copied.add(&Write{Verb: "update", Type: a, Version: "200"})
	if r.Forgot(a.GVK.GroupKind(), "150", false) {
		t.Error("the copy has the maps of the original")
	}
}
