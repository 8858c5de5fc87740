package check

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// This file has the rules that kube-apiserver checks by declarative validation, with other messages.

// AttacherName is [DriverName] by declarative validation.
func AttacherName(f Field, name string) { f.Report(fieldrules.AttacherName(name, &f.Path, "")...) }

// ImmutableWithoutValue is [Immutable] by declarative validation: the error does not have the value.
func ImmutableWithoutValue[T any](f Field, now, was T) {
	if !equality.Semantic(now, was) {
		f.report(field.Invalid(f.Path.Field(), nil, apivalidation.FieldImmutableErrorMsg).WithOrigin("immutable"))
	}
}
