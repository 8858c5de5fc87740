package resource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits for the errors of one object.
const (
	maxErrors     = 1000
	maxErrorBytes = 1 << 20 // of the paths and the values in them
)

// Bounded returns errs unchanged, or the first errors and their total number if errs has too many or too long errors. A
// Status quotes each error, and apimachinery takes quadratic time for that.
func Bounded(errs field.ErrorList) field.ErrorList {
	size := 0
	for i, e := range errs {
		size += len(e.Field)
		if text, ok := e.BadValue.(string); ok {
			size += len(text)
		}
		if i == maxErrors || i > 0 && size > maxErrorBytes {
			more := &field.Error{Type: field.ErrorTypeTooMany, Field: errs[0].Field, BadValue: len(errs),
				Detail: fmt.Sprintf("the object has %d errors, and these are the first", len(errs))}
			return append(errs[:i:i], more)
		}
	}
	return errs
}
