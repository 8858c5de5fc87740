package managedfields

import (
	"reflect"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"flyball.dev/apiserver/equality"
)

// comparer finds the fields in which two values of one type differ. structured-merge-diff does the same by converting
// and validating both values. comparer fails for rarely written values with special rules in structured-merge-diff:
// nulls, duplicate elements, and atomic values that structured-merge-diff may reject.
//
//upstream:sigs.k8s.io/structured-merge-diff/v6/typed.compareWalker
type comparer struct {
	writer // reads the keys of elements
	path   fieldpath.Path
	out    *typed.Comparison
}

// compareValues compares two structs. It returns false if comparer does not support the difference.
func compareValues(m *mergeType, old, now reflect.Value) (*typed.Comparison, bool) {
	c := comparer{path: make(fieldpath.Path, 0, 8), out: &typed.Comparison{
		Removed: fieldpath.NewSet(), Modified: fieldpath.NewSet(), Added: fieldpath.NewSet()}}
	c.fields(m, old, now)
	return c.out, !c.failed
}

// compare compares two values. Both must be present.
func (c *comparer) compare(m *mergeType, old, now reflect.Value) {
	if equality.Identical(old, now) {
		return
	}
	switch old.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if old.IsNil() || now.IsNil() {
			c.failed = true // one is null
			return
		}
	}
	old, now = reflect.Indirect(old), reflect.Indirect(now)
	switch m.granularity {
	case atomic:
		c.leaf(m, old, now)
	case granularStruct:
		c.fields(m, old, now)
	case granularMap:
		c.entries(m, old, now)
	default:
		c.elements(m, old, now)
	}
}

// leaf compares two values that each have a single manager.
func (c *comparer) leaf(m *mergeType, old, now reflect.Value) {
	switch {
	case m.nested:
		c.failed = c.failed || !equality.Identical(old, now)
	case !sameJSON(old, now):
		c.out.Modified.Insert(c.path)
	}
}

// sameJSON reports whether structured-merge-diff considers two values equal.
func sameJSON(a, b reflect.Value) bool {
	if equality.Identical(a, b) {
		return true
	}
	if t := a.Type(); t.NumMethod() == 0 && reflect.PointerTo(t).NumMethod() == 0 {
		switch a.Kind() {
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
			return false
		}
	}
	x, err := value.NewValueReflect(pointerTo(a))
	if err != nil {
		return false
	}
	y, err := value.NewValueReflect(pointerTo(b))
	return err == nil && value.Equals(x, y)
}

// pointerTo returns a pointer to a value, or to a copy if the value is not addressable.
func pointerTo(v reflect.Value) any {
	if v.CanAddr() {
		return v.Addr().Interface()
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p.Interface()
}

func (c *comparer) fields(m *mergeType, old, now reflect.Value) {
	for _, f := range m.fields {
		x, y := f.GetFrom(old), f.GetFrom(now)
		c.member(f.typ, fieldpath.PathElement{FieldName: &f.JsonName}, x, y, !f.CanOmit(x), !f.CanOmit(y))
	}
}

// member compares a part of two values. before and after say whether the part is present.
func (c *comparer) member(m *mergeType, at fieldpath.PathElement, old, now reflect.Value, before, after bool) {
	if !before && !after {
		return
	}
	c.path = append(c.path, at)
	switch {
	case before && after:
		c.compare(m, old, now)
	case after:
		c.whole(c.out.Added, m, now)
	default:
		c.whole(c.out.Removed, m, old)
	}
	c.path = c.path[:len(c.path)-1]
}

// whole inserts the value at the path and all its parts into a set.
func (c *comparer) whole(set *fieldpath.Set, m *mergeType, v reflect.Value) {
	last := len(c.path) - 1
	for _, at := range c.path[:last] {
		set = set.Children.Descend(at)
	}
	c.insert(set, c.path[last], m, v)
}

// insert inserts a member of a set, and all its parts.
func (c *comparer) insert(set *fieldpath.Set, at fieldpath.PathElement, m *mergeType, v reflect.Value) {
	set.Members.Insert(at)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	var below *fieldpath.Set
	part := func(m *mergeType, inner fieldpath.PathElement, v reflect.Value) {
		if below == nil {
			below = set.Children.Descend(at)
		}
		c.insert(below, inner, m, v)
	}
	switch m.granularity {
	case atomic:
		c.failed = c.failed || m.nested
	case granularStruct:
		for _, f := range m.fields {
			if x := f.GetFrom(v); !f.CanOmit(x) {
				part(f.typ, fieldpath.PathElement{FieldName: &f.JsonName}, x)
			}
		}
	case granularMap:
		for _, key := range sortedKeys(v) {
			part(m.element, fieldName(key), v.MapIndex(key))
		}
	default:
		for _, i := range c.ordered(m, v) {
			part(m.element, c.elementOf(m, v.Index(i)), v.Index(i))
		}
	}
}

func fieldName(key reflect.Value) fieldpath.PathElement {
	name := key.String()
	return fieldpath.PathElement{FieldName: &name}
}

func (c *comparer) entries(m *mergeType, old, now reflect.Value) {
	for _, key := range sortedKeys(old) {
		y := now.MapIndex(key)
		c.member(m.element, fieldName(key), old.MapIndex(key), y, true, y.IsValid())
	}
	for _, key := range sortedKeys(now) {
		if !old.MapIndex(key).IsValid() {
			c.member(m.element, fieldName(key), reflect.Value{}, now.MapIndex(key), false, true)
		}
	}
}

// elements compares two lists in the order of their keys.
//
//upstream:sigs.k8s.io/structured-merge-diff/v6/typed.compareWalker.visitListItems
func (c *comparer) elements(m *mergeType, old, now reflect.Value) {
	before, after := c.ordered(m, old), c.ordered(m, now)
	for !c.failed && (len(before) > 0 || len(after) > 0) {
		order := -1
		switch {
		case len(before) == 0:
			order = 1
		case len(after) > 0:
			order = c.writer.compare(m, old.Index(before[0]), now.Index(after[0]))
		}
		var x, y reflect.Value
		if order <= 0 {
			x, before = old.Index(before[0]), before[1:]
		}
		if order >= 0 {
			y, after = now.Index(after[0]), after[1:]
		}
		either := x
		if order > 0 {
			either = y
		}
		c.member(m.element, c.elementOf(m, either), x, y, order <= 0, order >= 0)
	}
}

// ordered returns the indexes of the elements of a list in the order of their keys. It fails for a list with pointers
// or with two elements of the same key.
func (c *comparer) ordered(m *mergeType, list reflect.Value) []int {
	if list.Type().Elem().Kind() == reflect.Pointer {
		c.failed = true
		return nil
	}
	order, distinct := c.order(m, list)
	c.failed = c.failed || !distinct
	return order
}

// elementOf returns the path element for an element of a list.
func (c *comparer) elementOf(m *mergeType, element reflect.Value) fieldpath.PathElement {
	if m.granularity == listSet {
		v := scalarOf(element)
		return fieldpath.PathElement{Value: &v}
	}
	keys := make(value.FieldList, len(m.keys))
	for i, key := range m.keys {
		keys[i] = value.Field{Name: key.JsonName, Value: scalarOf(c.keyValue(key, element))}
	}
	return fieldpath.PathElement{Key: &keys}
}

func scalarOf(v reflect.Value) value.Value {
	if v.Kind() == reflect.String {
		return value.NewValueInterface(v.String())
	}
	return value.NewValueInterface(v.Int())
}
