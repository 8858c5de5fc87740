package builtin

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// describeKindOf returns the kind with the Go type of an object.
func describeKindOf(t *testing.T, obj runtime.Object) described {
	t.Helper()
	for _, k := range All(Options{}) {
		if d := describe(k); reflect.TypeOf(d.blank()) == reflect.TypeOf(obj) {
			return d
		}
	}
	t.Fatalf("no kind has the type %T", obj)
	return described{}
}

// validate returns the errors of a new object.
func (d described) validate(obj runtime.Object) field.ErrorList {
	return append(d.errors("Validate", obj), d.errors("ValidateCreate", obj)...)
}

// change is a merge patch of a manifest with the errors that it causes.
type change struct {
	patch string
	want  []string
}

// patched returns a manifest with a merge patch applied.
func patched(t *testing.T, base, patch string) string {
	t.Helper()
	a, err := yaml.YAMLToJSON([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	b, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		t.Fatalf("%v\n%s", err, patch)
	}
	out, err := jsonpatch.MergePatch(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// messages returns the sorted messages of errors.
func messages(errs field.ErrorList) []string {
	var list []string
	for _, err := range errs {
		list = append(list, err.Error())
	}
	slices.Sort(list)
	return list
}

// compareMessages compares messages. A wanted one that ends in "…" is a prefix.
func compareMessages(t *testing.T, want, got []string) {
	t.Helper()
	for i := range want {
		if begin, ok := strings.CutSuffix(want[i], "…"); ok && i < len(got) && strings.HasPrefix(got[i], begin) {
			got[i] = want[i]
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("errors (-want +got):\n%s", d)
	}
}

// invalidWhen checks that a manifest is valid, and the errors after each change.
func invalidWhen(t *testing.T, base string, changes map[string]change) {
	t.Helper()
	good := read(t, base)
	compareMessages(t, nil, messages(describeKindOf(t, good).validate(good)))
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			bad := read(t, patched(t, base, c.patch))
			compareMessages(t, c.want, messages(describeKindOf(t, bad).validate(bad)))
		})
	}
}
