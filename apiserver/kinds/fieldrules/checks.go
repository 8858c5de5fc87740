package fieldrules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
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

// DNSLabel checks a name without dots.
func DNSLabel(s string, fldPath *Path, name string) field.ErrorList {
	if plainLabel(s) {
		return nil
	}
	if s == "" {
		return field.ErrorList{field.Required(fldPath.ChildField(name), "")}
	}
	return Invalid(validation.IsDNS1123Label(s), s, fldPath, name)
}

// plainLabel is a fast path: it accepts most names that are DNS labels, and nothing else.
func plainLabel(s string) bool {
	if len(s) == 0 || len(s) > validation.DNS1123LabelMaxLength || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// DNSName checks a name that may have dots.
func DNSName(s string, fldPath *Path, name string) field.ErrorList {
	if plainLabel(s) {
		return nil
	}
	return Invalid(validation.IsDNS1123Subdomain(s), s, fldPath, name)
}

// NameIsSubdomain is the rule for names of most kinds; labels need no regular expression.
func NameIsSubdomain(name string, prefix bool) []string {
	if plainLabel(name) {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, prefix)
}

// NameIsLabel is the rule for names that are DNS labels.
func NameIsLabel(name string, prefix bool) []string {
	if plainLabel(name) {
		return nil
	}
	return apivalidation.NameIsDNSLabel(name, prefix)
}

// QualifiedName checks a name such as example.com/name.
func QualifiedName(s string, fldPath *Path, name string) field.ErrorList {
	if plainQualified(s) {
		return nil
	}
	return Invalid(validation.IsQualifiedName(s), s, fldPath, name)
}

// plainQualified is a fast path: it accepts most qualified names, and nothing else.
func plainQualified(s string) bool {
	domain, name, ok := strings.Cut(s, "/")
	if !ok {
		return plainLabel(s)
	}
	if len(domain) > validation.DNS1123SubdomainMaxLength || !plainLabel(name) {
		return false
	}
	for part := range strings.SplitSeq(domain, ".") {
		if !plainLabel(part) {
			return false
		}
	}
	return true
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
	return v == nil || v.Type == intstr.Int && v.IntVal == 0
}

// NonNegativeQuantity checks that a quantity is not negative.
func NonNegativeQuantity(q resource.Quantity, fldPath *Path, name string) field.ErrorList {
	if q.Sign() >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField(name), q.String(), apivalidation.IsNegativeErrorMsg)}
}

// Immutable checks a field that no update may change.
func Immutable(now, was any, fldPath *Path, name string) field.ErrorList {
	return apivalidation.ValidateImmutableField(now, was, fldPath.ChildField(name))
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

// ordered sorts the errors of a map's entries. Without errors that costs less than sorting the
// keys.
func ordered(errs field.ErrorList) field.ErrorList {
	slices.SortStableFunc(errs, func(a, b *field.Error) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Detail, b.Detail))
	})
	return errs
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

// NameIsPathSegment is the rule for names that can be any segment of a URL's path.
func NameIsPathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// Supported checks that a value is one of the allowed ones; an empty one is unsupported too.
func Supported[S ~string](s S, w *Path, name string, allowed ...S) field.ErrorList {
	if slices.Contains(allowed, s) {
		return nil
	}
	return NotSupported(s, w, name, allowed)
}

// Limits of the name of a signer, in bytes: the domain, and the whole, whose path has room for a
// label and a subdomain.
const (
	maxSignerDomain = validation.DNS1123SubdomainMaxLength
	maxSigner       = maxSignerDomain + 1 + validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 1
)

// SignerName checks the name of a signer, such as example.com/signer.
func SignerName(s string, w *Path, name string) field.ErrorList {
	if s == "" {
		return field.ErrorList{field.Required(w.ChildField(name), "")}
	}
	domain, path, ok := strings.Cut(s, "/")
	if !ok || strings.Contains(path, "/") {
		return field.ErrorList{field.Invalid(w.ChildField(name), s, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	if len(domain) > maxSignerDomain {
		errs = append(errs, field.TooLong(w.ChildField(name), "", maxSignerDomain))
	}
	errs = append(errs, signerLabels(domain, validation.IsDNS1123Label, w, name)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(w.ChildField(name), domain, "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, signerLabels(path, validation.IsDNS1123Subdomain, w, name)...)
	if len(s) > maxSigner {
		errs = append(errs, field.TooLong(w.ChildField(name), "", maxSigner))
	}
	return errs
}

// signerLabels returns the errors of the first invalid label of a signer's domain or path.
func signerLabels(part string, check func(string) []string, w *Path, name string) field.ErrorList {
	var errs field.ErrorList
	for label := range strings.SplitSeq(part, ".") {
		for _, m := range check(label) {
			errs = append(errs, field.Invalid(w.ChildField(name), part, fmt.Sprintf("validating label %q: %s", label, m)))
		}
		if len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// DriverName checks the name of a CSI driver.
func DriverName(s string, w *Path, name string) field.ErrorList {
	if s == "" {
		return field.ErrorList{field.Required(w.ChildField(name), "")}
	}
	var errs field.ErrorList
	if len(s) > validation.DNS1123LabelMaxLength {
		errs = append(errs, field.TooLong(w.ChildField(name), "", validation.DNS1123LabelMaxLength))
	}
	return append(errs, Invalid(validation.IsDNS1123Subdomain(strings.ToLower(s)), s, w, name)...)
}

// Internal returns the value that an error of kube-apiserver shows for a struct of an API. It
// validates internal types, which have no tags, so that their fields have Go's names in JSON, also
// those that are empty.
func Internal(value any) any {
	return internal(reflect.ValueOf(value))
}

// internal returns the value of v without tags, nil for what is nil.
func internal(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return internal(v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = internal(v.Index(i))
		}
		return list
	case reflect.Struct:
		if strings.HasPrefix(v.Type().PkgPath(), "k8s.io/apimachinery/") {
			return v.Interface() // it is the same in every version
		}
		if _, ok := v.Interface().(json.Marshaler); ok || v.CanAddr() && v.Addr().Type().Implements(marshaler) {
			return v.Interface()
		}
		fields, values := untagged(v)
		copied := reflect.New(reflect.StructOf(fields)).Elem()
		for i, value := range values {
			if value.IsValid() {
				copied.Field(i).Set(value)
			}
		}
		return copied.Interface()
	}
	return v.Interface()
}

// untagged returns the fields of a struct without tags, those of embedded structs in their place, and
// their values. Metadata keeps its tags, which it has in every version.
func untagged(v reflect.Value) ([]reflect.StructField, []reflect.Value) {
	var fields []reflect.StructField
	var values []reflect.Value
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		switch {
		case f.Anonymous && f.Type == reflect.TypeFor[metav1.ObjectMeta]():
			for j := range f.Type.NumField() {
				fields, values = append(fields, f.Type.Field(j)), append(values, value.Field(j))
			}
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			more, with := untagged(value)
			fields, values = append(fields, more...), append(values, with...)
		default:
			fields = append(fields, reflect.StructField{Name: f.Name, Type: reflect.TypeFor[any]()})
			values = append(values, reflect.ValueOf(internal(value)))
		}
	}
	return fields, values
}

var marshaler = reflect.TypeFor[json.Marshaler]()
