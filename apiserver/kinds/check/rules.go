package check

import (
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// Optional applies a rule to a value that may be absent.
func Optional[T any](f Field, value *T, rule func(Field, T)) {
	if value != nil {
		rule(f, *value)
	}
}

// IfSet applies a rule to a value unless the value is zero.
func IfSet[T comparable](f Field, value T, rule func(Field, T)) {
	var zero T
	if value != zero {
		rule(f, value)
	}
}

// Fails reports whether rules find errors. Callers use it for the old object, because an update may keep invalid values.
func Fails(rules func(Field)) bool {
	var errs field.ErrorList
	rules(Object(&errs))
	return len(errs) > 0
}

// Forbid checks that a field is not set.
func Forbid(f Field, set bool, detail string) {
	if set {
		f.Forbidden(detail)
	}
}

// Required checks that a string is not empty.
func Required[S ~string](f Field, s S) {
	if s == "" {
		f.Required("")
	}
}

// Valid checks a value by one of upstream's functions, which returns messages.
func Valid[T any](f Field, value T, validate func(T) []string) {
	Messages(f, value, validate(value))
}

// Messages adds an error for each message of one of upstream's functions.
func Messages[T any](f Field, value T, messages []string) {
	for _, message := range messages {
		f.Invalid(value, message)
	}
}

// NonNegative checks a number that may be absent.
func NonNegative[N int32 | int64](f Field, n *N) {
	if n != nil && *n < 0 {
		f.report(field.Invalid(f.Path.Field(), int64(*n), apivalidation.IsNegativeErrorMsg).WithOrigin("minimum"))
	}
}

// Positive checks that a number is greater than zero.
func Positive[N int32 | int64](f Field, n N) {
	if n <= 0 {
		f.Invalid(int64(n), "must be greater than zero")
	}
}

// Port checks the number of a port.
func Port(f Field, n int32) { f.Report(fieldrules.Port(n, &f.Path, "")...) }

// PortOrName checks the number or the name of a port.
func PortOrName(f Field, p intstr.IntOrString) { f.Report(fieldrules.PortOrName(p, &f.Path, "")...) }

// DNSLabel checks that a name is present, and has no dots.
func DNSLabel(f Field, name string) { f.Report(fieldrules.DNSLabel(name, &f.Path, "")...) }

// DNSName checks a name that may have dots.
func DNSName(f Field, name string) { f.Report(fieldrules.DNSName(name, &f.Path, "")...) }

// QualifiedName checks a name such as example.com/name.
func QualifiedName[S ~string](f Field, name S) {
	f.Report(fieldrules.QualifiedName(name, &f.Path, "")...)
}

// LabelName checks the key of a label or a taint.
func LabelName(f Field, key string) { f.Report(fieldrules.LabelName(key, &f.Path, "")...) }

// Labels checks the keys and values of labels.
func Labels(f Field, labels map[string]string) { f.Report(fieldrules.LabelMap(labels, &f.Path, "")...) }

// Annotations checks the keys and the size of annotations.
func Annotations(f Field, annotations map[string]string) {
	if len(annotations) > 0 {
		f.Report(apivalidation.ValidateAnnotations(annotations, f.Path.Field())...)
	}
}

// TemplateMetadata checks the metadata of a template of objects, which has labels and annotations only.
func TemplateMetadata(f Field, m metav1.ObjectMeta) {
	f.Report(fieldrules.TemplateMetadata(m, &f.Path)...)
}

// DriverName checks the name of a CSI driver.
func DriverName(f Field, name string) { f.Report(fieldrules.DriverName(name, &f.Path, "")...) }

// SignerName checks the name of a signer, such as example.com/signer.
func SignerName(f Field, name string) { f.Report(fieldrules.SignerName(name, &f.Path, "")...) }

// LabelSelector checks the operators, keys and values of a selector, which may be nil.
func LabelSelector(f Field, s *metav1.LabelSelector) {
	f.Report(fieldrules.LabelSelector(s, &f.Path, "")...)
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

// Supported checks that a value is one of the supported ones. An empty value is unsupported, and not missing.
func Supported[S ~string](f Field, value S, supported ...S) {
	if !slices.Contains(supported, value) {
		f.report(field.NotSupported(f.Path.Field(), value, supported))
	}
}

// OptionalOneOf is [Supported] for a value that may be absent.
func OptionalOneOf[S ~string](f Field, value *S, supported ...S) {
	if value != nil {
		Supported(f, *value, supported...)
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
