package check

import (
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// NonNegative checks a number that may be absent.
func NonNegative[N int32 | int64](f Field, n *N) {
	if n != nil && *n < 0 {
		f.report(field.Invalid(f.Path.Field(), int64(*n), apivalidation.IsNegativeErrorMsg).WithOrigin("minimum"))
	}
}

// OneOf checks that a value is one of the supported ones. The message has them in this order.
func OneOf[S ~string](f Field, value S, supported ...S) {
	switch {
	case slices.Contains(supported, value):
	case value == "":
		f.Required("")
	default:
		f.report(field.NotSupported(f.Path.Field(), value, supported))
	}
}

// OptionalOneOf is OneOf for a value that may be absent. An empty value that is present is not supported, and not missing.
func OptionalOneOf[S ~string](f Field, value *S, supported ...S) {
	if value != nil && !slices.Contains(supported, *value) {
		f.report(field.NotSupported(f.Path.Field(), *value, supported))
	}
}

// Immutable checks that an update does not change a value.
func Immutable[T any](f Field, now, was T) {
	if !equality.Semantic(now, was) {
		f.Invalid(now, apivalidation.FieldImmutableErrorMsg)
	}
}

// ImmutableStruct is Immutable for a struct that has no tags in kube-apiserver; see [fieldrules.Internal].
func ImmutableStruct[T any](f Field, now, was T) {
	if !equality.Semantic(now, was) {
		f.report(field.Invalid(f.Path.Field(), fieldrules.Internal(now), apivalidation.FieldImmutableErrorMsg).WithOrigin("immutable"))
	}
}
