package managedfields

import (
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Extent describes the extent of a JSON value.
type Extent struct {
	Widest int // the number of keys of the widest map
	Paths  int // the bytes of the paths of all fields and elements
}

// ExtentOf returns the extent of a JSON value.
func ExtentOf(v any) (e Extent) {
	e.add(v, 0)
	return e
}

func (e *Extent) add(v any, path int) {
	e.Paths += path
	switch v := v.(type) {
	case map[string]any:
		e.Widest = max(e.Widest, len(v))
		for name, inner := range v {
			e.add(inner, path+1+len(name))
		}
	case []any:
		for _, item := range v {
			e.add(item, path+1)
		}
	}
}

// Wide reports whether structured-merge-diff is much slower for a value of this extent than for the same value
// [Sorted]. In smaller maps, random insertions cost as much as sorting.
func (e Extent) Wide() bool { return e.Widest >= 2000 }

// Sorted returns a value with maps that are visited in the order of their keys. structured-merge-diff inserts each
// visited field into a sorted list. In the random order of Go maps this takes quadratic time; in the order of the keys
// each insertion is an append.
func Sorted(v *typed.TypedValue) *typed.TypedValue {
	if sorted, err := typed.AsTyped(sortedValue{v.AsValue()}, v.Schema(), v.TypeRef(), typed.AllowDuplicates); err == nil {
		return sorted
	}
	return v
}

// sortedValue is a value with sorted maps.
type sortedValue struct{ value.Value }

func (v sortedValue) AsMap() value.Map { return sortedMap{v.Value.AsMap()} }

func (v sortedValue) AsMapUsing(value.Allocator) value.Map { return v.AsMap() }

func (v sortedValue) AsList() value.List { return sortedList{v.Value.AsList()} }

func (v sortedValue) AsListUsing(value.Allocator) value.List { return v.AsList() }

// sortedList is a list of sorted values.
type sortedList struct{ value.List }

func (l sortedList) At(i int) value.Value { return sortedValue{l.List.At(i)} }

func (l sortedList) AtUsing(_ value.Allocator, i int) value.Value { return l.At(i) }

// sortedMap is a map that is visited in the order of its keys, with sorted values.
type sortedMap struct{ value.Map }

func (m sortedMap) Get(key string) (value.Value, bool) {
	v, ok := m.Map.Get(key)
	return sortedOrNil(v), ok
}

func (m sortedMap) GetUsing(_ value.Allocator, key string) (value.Value, bool) { return m.Get(key) }

func (m sortedMap) Iterate(visit func(key string, v value.Value) bool) bool {
	return m.Zip(nil, value.LexicalKeyOrder, func(key string, v, _ value.Value) bool { return visit(key, v) })
}

func (m sortedMap) IterateUsing(_ value.Allocator, visit func(key string, v value.Value) bool) bool {
	return m.Iterate(visit)
}

func (m sortedMap) Zip(other value.Map, _ value.MapTraverseOrder, visit func(key string, a, b value.Value) bool) bool {
	return m.Map.Zip(unwrapped(other), value.LexicalKeyOrder, func(key string, a, b value.Value) bool {
		return visit(key, sortedOrNil(a), sortedOrNil(b))
	})
}

func (m sortedMap) ZipUsing(_ value.Allocator, other value.Map, order value.MapTraverseOrder,
	visit func(key string, a, b value.Value) bool) bool {
	return m.Zip(other, order, visit)
}

func (m sortedMap) Equals(other value.Map) bool { return m.Map.Equals(unwrapped(other)) }

func (m sortedMap) EqualsUsing(a value.Allocator, other value.Map) bool {
	return m.Map.EqualsUsing(a, unwrapped(other))
}

// unwrapped returns the map within a sorted map.
func unwrapped(m value.Map) value.Map {
	if sorted, ok := m.(sortedMap); ok {
		return sorted.Map
	}
	return m
}

func sortedOrNil(v value.Value) value.Value {
	if v == nil {
		return nil
	}
	return sortedValue{v}
}
