package managedfields

import (
	"reflect"
	"slices"

	"flyball.dev/apiserver/equality"
)

// reduce removes the equal fields from two structs of one type, so that the cost of comparing them depends on the
// difference only. It descends into structs only; a list or map stays whole if it differs. The structs are shallow
// copies: reduce copies referenced values before it changes them.
func (m *mergeType) reduce(a, b reflect.Value) {
	for _, f := range m.fields {
		x, y := f.GetFrom(a), f.GetFrom(b)
		if !x.CanSet() || !y.CanSet() {
			continue
		}
		switch {
		case f.typ.granularity == granularStruct && x.Kind() == reflect.Struct && !f.absentEmpty:
			f.typ.reduce(x, y)
		case equality.Identical(x, y):
			x.SetZero()
			y.SetZero()
		case f.typ.granularity == granularStruct && x.Kind() == reflect.Pointer && !x.IsNil() && !y.IsNil():
			f.typ.reduce(copyPointee(x), copyPointee(y))
		}
	}
}

// copyPointee replaces the target of a pointer by a copy, and returns the copy.
func copyPointee(p reflect.Value) reflect.Value {
	c := reflect.New(p.Type().Elem())
	c.Elem().Set(p.Elem())
	p.Set(c)
	return c.Elem()
}

// reduceMaps returns copies of two JSON objects without equal values and without the keys of skip. It does not descend
// into lists.
func reduceMaps(a, b map[string]any, skip []string) (x, y map[string]any) {
	x, y = map[string]any{}, map[string]any{}
	for key, old := range a {
		if slices.Contains(skip, key) {
			continue
		}
		now, both := b[key]
		switch {
		case !both:
			x[key] = old
		case !EqualJSON(old, now):
			inner, isMap := old.(map[string]any)
			other, isMapToo := now.(map[string]any)
			if isMap && isMapToo {
				x[key], y[key] = reduceMaps(inner, other, nil)
			} else {
				x[key], y[key] = old, now
			}
		}
	}
	for key, now := range b {
		if _, both := a[key]; !both && !slices.Contains(skip, key) {
			y[key] = now
		}
	}
	return x, y
}

// EqualJSON reports whether two JSON values are equal. Numbers of different types differ. EqualJSON does not descend
// into shared values.
func EqualJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		if reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer() {
			return true
		}
		for key, value := range a {
			if other, ok := b[key]; !ok || !EqualJSON(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		return len(a) == 0 || &a[0] == &b[0] || slices.EqualFunc(a, b, EqualJSON)
	case string, bool, int64, float64, nil:
		return a == b
	}
	return false
}
