package resource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of the errors of one object.
const (
	maxErrors     = 1000
	maxErrorBytes = 1 << 20 // of the paths and the values in them
)

// Bounded returns the first errors of an object if there are very many, or very long ones, and an error that says how
// many there are. A Status quotes each of them, and apimachinery takes the square of their size for that.
func Bounded(errs field.ErrorList) field.ErrorList {
	size := 0
	for i, e := range errs {
		size += len(e.Field)
		if text, ok := e.BadValue.(string); ok {
			size += len(text)
		}
		if i == maxErrors || i > 0 && size > maxErrorBytes {
			more := &field.Error{Type: field.ErrorTypeTooMany, Field: errs[0].Field, BadValue: len(errs),
				Detail: fmt.Sprintf("the object has %d errors, of which these are the first", len(errs))}
			return append(errs[:i:i], more)
		}
	}
	return errs
}
