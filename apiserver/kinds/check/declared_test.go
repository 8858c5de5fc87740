package check

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestDeclared checks the messages of the rules that kube-apiserver has generated code for.
func TestDeclared(t *testing.T) {
	var errs field.ErrorList
	spec := Object(&errs).Child("spec")
	for _, name := range []string{"", "a.b", "A.B", "a_b", strings.Repeat("a", 64)} {
		AttacherName(spec.Child("attacher"), name)
	}
	ImmutableWithoutValue(spec.Child("same"), []string{}, nil)
	ImmutableWithoutValue(spec.Child("other"), "now", "was")
	want := []string{
		"spec.attacher: Required value",
		`spec.attacher: Invalid value: "a_b": an RFC 1123 subdomain must consist of`,
		"spec.attacher: Too long: may not be more than 63 characters",
		"spec.other: Invalid value: null: field is immutable",
	}
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if origin := errs[len(errs)-1].Origin; origin != "immutable" {
		t.Errorf("the origin is %q", origin)
	}
}
