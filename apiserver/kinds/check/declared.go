package check

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// The rules that kube-apiserver checks by generated code, which has other messages.

// AttacherName is [DriverName] by generated code.
func AttacherName(f Field, name string) { f.Report(fieldrules.AttacherName(name, &f.Path, "")...) }

// ImmutableUnquoted is [Immutable] by generated code, which does not quote the value.
func ImmutableUnquoted[T any](f Field, now, was T) {
	if !equality.Semantic(now, was) {
		f.report(field.Invalid(f.Path.Field(), nil, apivalidation.FieldImmutableErrorMsg).WithOrigin("immutable"))
	}
}
