// Package converters combines converters of objects to the typed values of structured-merge-diff.
package converters

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Chain is a converter that uses the first of several that does not return an error. Its own error
// has the errors of all.
type Chain []managedfields.TypeConverter

// ObjectToTyped implements [managedfields.TypeConverter].
func (c Chain) ObjectToTyped(
	obj runtime.Object, options ...typed.ValidationOptions,
) (*typed.TypedValue, error) {
	var errs []error
	for _, converter := range c {
		value, err := converter.ObjectToTyped(obj, options...)
		if err == nil {
			return value, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("failed to convert Object to TypedValue: %w", errors.Join(errs...))
}

// TypedToObject implements [managedfields.TypeConverter].
func (c Chain) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	var errs []error
	for _, converter := range c {
		obj, err := converter.TypedToObject(value)
		if err == nil {
			return obj, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("failed to convert TypedValue to Object: %w", errors.Join(errs...))
}
