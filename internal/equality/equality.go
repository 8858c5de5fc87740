// Package equality compares API objects faster than apimachinery and package reflect do, with the
// same result.
package equality

import (
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Semantic reports whether two values are equal as [apiequality.Semantic] defines it. Most of what a
// server compares is identical, which costs a fraction to find out.
func Semantic(a, b any) bool {
	return Identical(reflect.ValueOf(a), reflect.ValueOf(b)) || apiequality.Semantic.DeepEqual(a, b)
}

// Identical reports whether two values are deeply equal as [reflect.DeepEqual] defines it. The
// values must be trees: of pointers, maps and slices, none may contain itself.
func Identical(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	if a.Type() != b.Type() {
		return false
	}
	return identical(a, b)
}

// identical compares two values of one type.
func identical(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return a.Uint() == b.Uint()
	case reflect.Float32, reflect.Float64:
		return a.Float() == b.Float()
	case reflect.Struct:
		for i := range a.NumField() {
			if !identical(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() || a.UnsafePointer() == b.UnsafePointer() {
			return a.UnsafePointer() == b.UnsafePointer()
		}
		return identical(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		if a.UnsafePointer() == b.UnsafePointer() {
			return true
		}
		return elements(a, b)
	case reflect.Array:
		return elements(a, b)
	case reflect.Map:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		return a.UnsafePointer() == b.UnsafePointer() || entries(a, b)
	case reflect.Interface:
		return Identical(a.Elem(), b.Elem())
	case reflect.Func:
		return a.IsNil() && b.IsNil()
	default:
		return a.Equal(b)
	}
}

func elements(a, b reflect.Value) bool {
	for i := range a.Len() {
		if !identical(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

func entries(a, b reflect.Value) bool {
	if a.CanInterface() && b.CanInterface() {
		if x, ok := a.Interface().(map[string]string); ok {
			y := b.Interface().(map[string]string)
			for key, value := range x {
				if other, ok := y[key]; !ok || other != value {
					return false
				}
			}
			return true
		}
	}
	for it := a.MapRange(); it.Next(); {
		other := b.MapIndex(it.Key())
		if !other.IsValid() || !identical(it.Value(), other) {
			return false
		}
	}
	return true
}
