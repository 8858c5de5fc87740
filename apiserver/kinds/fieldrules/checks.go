package fieldrules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The rules that many kinds share. Each takes the path of the parent and the name of the field, and
// returns nil if the value is valid.

// number is the type of an integer field.
type number interface{ ~int | ~int32 | ~int64 }

// NonNegative checks that a number is not negative.
func NonNegative[N number](n N, fldPath *Path, name string) field.ErrorList {
	if n >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField(name), int64(n),
		apivalidation.IsNegativeErrorMsg).WithOrigin("minimum")}
}

// OptionalNonNegative is NonNegative for an optional number.
func OptionalNonNegative[N number](n *N, fldPath *Path, name string) field.ErrorList {
	if n == nil {
		return nil
	}
	return NonNegative(*n, fldPath, name)
}

// Positive checks that a number is greater than zero.
func Positive[N number](n N, fldPath *Path, name string) field.ErrorList {
	if n > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField(name), int64(n), "must be greater than zero")}
}

// Required checks that a string is not empty.
func Required[S ~string](s S, fldPath *Path, name string) field.ErrorList {
	if s != "" {
		return nil
	}
	return field.ErrorList{field.Required(fldPath.ChildField(name), "")}
}

// OneOf checks that a value is set, to one of the allowed ones.
func OneOf[S ~string](s S, fldPath *Path, name string, allowed ...S) field.ErrorList {
	if slices.Contains(allowed, s) {
		return nil
	}
	if s == "" {
		return field.ErrorList{field.Required(fldPath.ChildField(name), "")}
	}
	return NotSupported(s, fldPath, name, allowed)
}

// OptionalOneOf is OneOf for an optional value.
func OptionalOneOf[S ~string](s *S, fldPath *Path, name string, allowed ...S) field.ErrorList {
	if s == nil || slices.Contains(allowed, *s) {
		return nil
	}
	return NotSupported(*s, fldPath, name, allowed)
}

// NotSupported returns the error for a value that is not one of those allowed.
func NotSupported[S ~string](s S, fldPath *Path, name string, allowed []S) field.ErrorList {
	return field.ErrorList{field.NotSupported(fldPath.ChildField(name), s, slices.Sorted(slices.Values(allowed)))}
}

// Invalid returns an error for each message of one of upstream's checks.
func Invalid(messages []string, value any, fldPath *Path, name string) field.ErrorList {
	var errs field.ErrorList
	for _, m := range messages {
		errs = append(errs, field.Invalid(fldPath.ChildField(name), value, m))
	}
	return errs
}

// Port checks a port's number.
func Port[N number](n N, fldPath *Path, name string) field.ErrorList {
	if n >= 1 && n <= 65535 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField(name), int64(n), validation.InclusiveRangeError(1, 65535))}
}

// PortOrName checks the number or the name of a port.
func PortOrName(p intstr.IntOrString, fldPath *Path, name string) field.ErrorList {
	if p.Type == intstr.String {
		return Invalid(validation.IsValidPortName(p.StrVal), p.StrVal, fldPath, name)
	}
	return Port(p.IntVal, fldPath, name)
}

// IntOrPercent checks a number that is not negative, or a percentage of at most 100%.
func IntOrPercent(v *intstr.IntOrString, fldPath *Path, name string) field.ErrorList {
	if v == nil {
		return nil
	}
	if v.Type == intstr.Int {
		return NonNegative(v.IntVal, fldPath, name)
	}
	return Invalid(validation.IsValidPercent(v.StrVal), *v, fldPath, name)
}

// AtMost100Percent checks that a percentage is not above a hundred.
func AtMost100Percent(v *intstr.IntOrString, fldPath *Path, name string) field.ErrorList {
	if p, ok := percent(v); !ok || p <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField(name), *v, "must not be greater than 100%")}
}

func percent(v *intstr.IntOrString) (int, bool) {
	if v == nil || v.Type != intstr.String || len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	var p int
	_, err := fmt.Sscanf(v.StrVal, "%d%%", &p)
	return p, err == nil
}

// IsZero reports whether a number or percentage is zero.
func IsZero(v *intstr.IntOrString) bool {
	if p, ok := percent(v); ok {
		return p == 0
	}
	return v == nil || v.IntValue() == 0
}

// Immutable checks a field that no update may change.
func Immutable(now, was any, fldPath *Path, name string) field.ErrorList {
	return apivalidation.ValidateImmutableField(now, was, fldPath.ChildField(name))
}

// ImmutableWithoutValue is Immutable for a field that kube-apiserver checks by generated code, which does not quote the value.
func ImmutableWithoutValue(now, was any, fldPath *Path, name string) field.ErrorList {
	if apiequality.Semantic.DeepEqual(now, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField(name), nil, apivalidation.FieldImmutableErrorMsg).WithOrigin("immutable")}
}

// ImmutableStruct is Immutable for a struct that has no tags in kube-apiserver; see [Internal].
func ImmutableStruct(now, was any, fldPath *Path, name string) field.ErrorList {
	if apiequality.Semantic.DeepEqual(now, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField(name), Internal(now),
		apivalidation.FieldImmutableErrorMsg).WithOrigin("immutable")}
}

// LabelSelector checks a selector's operators, keys and values.
func LabelSelector(s *metav1.LabelSelector, fldPath *Path, name string) field.ErrorList {
	if s == nil {
		return nil
	}
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{},
		fldPath.ChildField(name))
}

// LabelName checks the key of a label or a taint.
func LabelName(key string, fldPath *Path, name string) field.ErrorList {
	if plainQualified(key) {
		return nil
	}
	return metav1validation.ValidateLabelName(key, fldPath.ChildField(name))
}

// LabelMap checks the keys and values of labels.
func LabelMap(m map[string]string, fldPath *Path, name string) field.ErrorList {
	if len(m) == 0 {
		return nil
	}
	return metav1validation.ValidateLabels(m, fldPath.ChildField(name))
}

// SortedKeys returns the keys of a map in order, so that errors are in order.
func SortedKeys[K ~string, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

// DefaultPointer sets a pointer that is nil.
func DefaultPointer[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// DefaultValue sets a value that is zero.
func DefaultValue[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Supported checks that a value is one of the allowed ones; an empty one is unsupported too.
func Supported[S ~string](s S, w *Path, name string, allowed ...S) field.ErrorList {
	if slices.Contains(allowed, s) {
		return nil
	}
	return NotSupported(s, w, name, allowed)
}

// Decimal returns the decimal form of a number.
func Decimal[N number](n N) string { return strconv.FormatInt(int64(n), 10) }
