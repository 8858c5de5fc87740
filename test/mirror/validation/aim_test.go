package validation

import (
	"reflect"
	"slices"
	"strings"
)

// A mutation that chooses among the fields of each struct on its way rarely arrives far below. Half of the mutations therefore
// aim at a type and choose fields that lead to it. All types below the field of the object are equally likely.

// graph tells which struct types lead to which.
type graph map[reflect.Type][]reflect.Type

// below returns the struct types that a value of type t can contain, in an order that does not change.
func (g graph) below(t reflect.Type) []reflect.Type {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return g.below(t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	if opaque[t] {
		return nil
	}
	if all, ok := g[t]; ok {
		return all
	}
	g[t] = []reflect.Type{t} // a type that contains itself ends here
	found := map[reflect.Type]bool{t: true}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Name != "ManagedFields" {
			for _, b := range g.below(f.Type) {
				found[b] = true
			}
		}
	}
	all := make([]reflect.Type, 0, len(found))
	for b := range found {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b reflect.Type) int { return strings.Compare(a.String(), b.String()) })
	g[t] = all
	return all
}

// toward returns the fields of a struct type that lead to the aim.
func (m *mutator) toward(t reflect.Type) []int {
	var fields []int
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && m.leads(f.Type) {
			fields = append(fields, i)
		}
	}
	return fields
}

// leads reports whether values of type t can contain the aim.
func (m *mutator) leads(t reflect.Type) bool {
	return m.aim != nil && slices.Contains(m.below(t), m.aim)
}

// take sets the aim to a type below t.
func (m *mutator) take(t reflect.Type) {
	m.aim = nil
	if all := m.below(t); len(all) > 0 && m.chance(50) {
		m.aim = pick(m, all)
	}
}
