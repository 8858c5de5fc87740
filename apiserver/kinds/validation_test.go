package kinds

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

// judge is what says whether an object of a kind, or a change of it, is right.
type judge interface {
	of(obj runtime.Object) bool
	judge(obj, old runtime.Object) field.ErrorList
	judgeStatus(obj, old runtime.Object) field.ErrorList
}

func (k Of[T]) of(obj runtime.Object) bool { return reflect.TypeOf(obj) == reflect.TypeOf(k.Type) }

func (k Of[T]) judge(obj, old runtime.Object) field.ErrorList {
	var errs field.ErrorList
	if k.Validate != nil {
		errs = k.Validate(obj.(T))
	}
	if old != nil && k.ValidateUpdate != nil {
		errs = append(errs, k.ValidateUpdate(obj.(T), old.(T))...)
	}
	return errs
}

func (k Of[T]) judgeStatus(obj, old runtime.Object) field.ErrorList {
	return k.ValidateStatus(obj.(T), old.(T))
}

func judgeOf(t *testing.T, obj runtime.Object) judge {
	t.Helper()
	for _, k := range All() {
		if j := k.(judge); j.of(obj) {
			return j
		}
	}
	t.Fatalf("no kind has the type %T", obj)
	return nil
}

// change is a merge patch of a manifest and what is then wrong with it.
type change struct {
	patch string
	want  []string
}

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

func messages(errs field.ErrorList) []string {
	var list []string
	for _, err := range errs {
		list = append(list, err.Error())
	}
	slices.Sort(list)
	return list
}

// same compares messages; a wanted one that ends in "…" is only the beginning.
func same(t *testing.T, want, got []string) {
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

// invalidWhen checks that a manifest is right as it is, and what is wrong with it after each change.
func invalidWhen(t *testing.T, base string, changes map[string]change) {
	t.Helper()
	good := read(t, base)
	same(t, nil, messages(judgeOf(t, good).judge(good, nil)))
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			bad := read(t, patched(t, base, c.patch))
			same(t, c.want, messages(judgeOf(t, bad).judge(bad, nil)))
		})
	}
}

// forbiddenWhen checks what is wrong with changing a manifest. The change itself is to a right object.
func forbiddenWhen(t *testing.T, base string, changes map[string]change) {
	t.Helper()
	old := read(t, base)
	same(t, nil, messages(judgeOf(t, old).judge(old, old.DeepCopyObject())))
	for name, c := range changes {
		t.Run("update/"+name, func(t *testing.T) {
			obj := read(t, patched(t, base, c.patch))
			same(t, c.want, messages(judgeOf(t, obj).judge(obj, old.DeepCopyObject())))
		})
	}
}
