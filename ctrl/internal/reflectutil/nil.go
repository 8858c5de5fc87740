// Package reflectutil has helpers for values of any type.
package reflectutil

import "reflect"

// IsNil reports whether v is nil: as an interface, or because its dynamic value is a nil pointer,
// map, slice, channel or function.
func IsNil(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Chan, reflect.Func:
		return r.IsNil()
	default:
		return false
	}
}
