// Package equality compares API objects with the same result as apimachinery and package reflect, but faster.
package equality

import (
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Semantic reports whether two values are equal under apimachinery's equality.Semantic: nil equals empty, and
// quantities and times are compared by value. The values must be trees, as for Identical, and must not contain
// selectors.
func Semantic(a, b any) bool {
	return comparison{semantic: true}.equal(reflect.ValueOf(a), reflect.ValueOf(b))
}

// Identical reports whether two values are equal under [reflect.DeepEqual]. The values must be trees: no pointer, map
// or slice may contain itself.
func Identical(a, b reflect.Value) bool {
	return comparison{}.equal(a, b)
}

// comparison is either semantic or deep equality.
type comparison struct{ semantic bool }

// equal compares two values, which may be invalid or of different types.
func (c comparison) equal(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	return a.Type() == b.Type() && c.same(a, b)
}

// same compares two values of one type.
func (c comparison) same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Struct:
		if c.semantic {
			if equal, ok := sameValue(a, b); ok {
				return equal
			}
		}
		for i := range a.NumField() {
			if !c.same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() || a.UnsafePointer() == b.UnsafePointer() {
			return a.UnsafePointer() == b.UnsafePointer()
		}
		return c.same(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() || (a.IsNil() != b.IsNil() && !c.semantic) {
			return false
		}
		return a.UnsafePointer() == b.UnsafePointer() || c.elements(a, b)
	case reflect.Array:
		return c.elements(a, b)
	case reflect.Map:
		if a.Len() != b.Len() || (a.IsNil() != b.IsNil() && !c.semantic) {
			return false
		}
		return a.UnsafePointer() == b.UnsafePointer() || c.entries(a, b)
	case reflect.Interface:
		return c.equal(a.Elem(), b.Elem())
	case reflect.Func:
		return a.IsNil() && b.IsNil()
	default:
		return a.Equal(b)
	}
}

var (
	quantity  = reflect.TypeFor[resource.Quantity]()
	timestamp = reflect.TypeFor[metav1.Time]()
	microTime = reflect.TypeFor[metav1.MicroTime]()
	fieldsV1  = reflect.TypeFor[metav1.FieldsV1]()
)

// sameValue compares structs that represent a single value. ok is false for other structs.
func sameValue(a, b reflect.Value) (equal, ok bool) {
	switch a.Type() {
	case quantity:
		x, y := valueOf[resource.Quantity](a), valueOf[resource.Quantity](b)
		return x.Cmp(*y) == 0, true
	case timestamp:
		return valueOf[metav1.Time](a).UTC() == valueOf[metav1.Time](b).UTC(), true
	case microTime:
		return valueOf[metav1.MicroTime](a).UTC() == valueOf[metav1.MicroTime](b).UTC(), true
	case fieldsV1:
		return valueOf[metav1.FieldsV1](a).Equal(*valueOf[metav1.FieldsV1](b)), true
	default:
		return false, false
	}
}

// valueOf returns a pointer to a value of type T, or to a copy if the value is not addressable.
func valueOf[T any](v reflect.Value) *T {
	if v.CanAddr() {
		return v.Addr().Interface().(*T)
	}
	x := v.Interface().(T)
	return &x
}

func (c comparison) elements(a, b reflect.Value) bool {
	for i := range a.Len() {
		if !c.same(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

func (c comparison) entries(a, b reflect.Value) bool {
	if a.CanInterface() && b.CanInterface() {
		if x, ok := a.Interface().(map[string]string); ok {
			return maps.Equal(x, b.Interface().(map[string]string))
		}
	}
	for it := a.MapRange(); it.Next(); {
		other := b.MapIndex(it.Key())
		if !other.IsValid() || !c.same(it.Value(), other) {
			return false
		}
	}
	return true
}
