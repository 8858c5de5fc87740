// Package check has the vocabulary of validation. A [Field] is a field of the object that is checked, and has a method for
// each kind of error. The functions are rules: each takes a field and its value, and adds an error if the value is invalid.
// Package fieldrules has the older form of some rules, with a path and the name of a child, for callers without a Field.
//
//	check.NonNegative(spec.Child("completions"), s.Completions)
//	if indexed && s.Completions == nil {
//		spec.Child("completions").Required("when completion mode is Indexed")
//	}
package check

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// Field is a field of an object, an item of a list, or an entry of a map.
type Field struct {
	Path   fieldrules.Path    // for upstream's functions and for package fieldrules; see Report
	report func(*field.Error) // a function, because with a pointer to a list of errors the path would escape to the heap
}

// Object returns the field that is the whole object. Its errors, and the errors of the fields in it, are added to errs.
func Object(errs *field.ErrorList) Field { return Field{}.Into(errs) }

// Into returns f with another list for its errors, and for the errors of the fields in it.
func (f Field) Into(errs *field.ErrorList) Field {
	return Field{f.Path, func(err *field.Error) { *errs = append(*errs, err) }}
}

// Child returns the field with this name in f.
func (f Field) Child(name string) Field { return Field{f.Path.Child(name), f.report} }

// Index returns an item of the list f.
func (f Field) Index(i int) Field { return Field{f.Path.Index(i), f.report} }

// Key returns an entry of the map f.
func (f Field) Key(k string) Field { return Field{f.Path.Key(k), f.report} }

// Report adds errors of upstream's functions, or of package fieldrules.
func (f Field) Report(errs ...*field.Error) {
	for _, err := range errs {
		f.report(err)
	}
}

// Invalid reports that f has an invalid value.
func (f Field) Invalid(value any, detail string) {
	f.report(field.Invalid(f.Path.Field(), value, detail))
}

// Invalidf is Invalid with a format.
func (f Field) Invalidf(value any, format string, args ...any) {
	f.Invalid(value, fmt.Sprintf(format, args...))
}

// NotSupported reports that f has none of the supported values.
func (f Field) NotSupported(value any, supported ...string) {
	f.report(field.NotSupported(f.Path.Field(), value, supported))
}

// Required reports that f is missing.
func (f Field) Required(detail string) { f.report(field.Required(f.Path.Field(), detail)) }

// Forbidden reports that f must not be set, or not to its value.
func (f Field) Forbidden(detail string) { f.report(field.Forbidden(f.Path.Field(), detail)) }

// NotFound reports that f refers to something that does not exist.
func (f Field) NotFound(value any) { f.report(field.NotFound(f.Path.Field(), value)) }

// Duplicate reports that an earlier item has the value of f.
func (f Field) Duplicate(value any) { f.report(field.Duplicate(f.Path.Field(), value)) }

// TooLong reports that the string f is longer than limit bytes.
func (f Field) TooLong(limit int) { f.report(field.TooLong(f.Path.Field(), "", limit)) }

// TooMany reports that the list f has n items, and the limit is lower.
func (f Field) TooMany(n, limit int) { f.report(field.TooMany(f.Path.Field(), n, limit)) }
