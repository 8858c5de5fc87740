package managedfields

import (
	"reflect"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"flyball.dev/internal/equality"
)

// comparer finds the fields in which two values of one type differ, as structured-merge-diff does
// by converting and validating both. It fails where that has rules for values that are hardly ever
// written: nulls, duplicate elements, and atomic values that have structs in them.
type comparer struct {
	writer // reads the keys of elements
	path   fieldpath.Path
	out    *typed.Comparison
}

// maxElements bounds the lists whose elements are compared with each other.
const maxElements = 64

// compareValues compares two structs. It returns false if it does not support their difference.
func compareValues(m *mergeType, old, now reflect.Value) (*typed.Comparison, bool) {
	c := comparer{path: make(fieldpath.Path, 0, 8), out: &typed.Comparison{
		Removed: fieldpath.NewSet(), Modified: fieldpath.NewSet(), Added: fieldpath.NewSet()}}
	c.fields(m, old, now)
	return c.out, !c.failed
}

// compare compares two values of which neither is omitted.
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

// leaf compares two values that have one manager each.
func (c *comparer) leaf(m *mergeType, old, now reflect.Value) {
	switch {
	case m.nested:
		c.failed = c.failed || !equality.Identical(old, now)
	case !sameJSON(old, now):
		c.out.Modified.Insert(c.path)
	}
}

// sameJSON reports whether two values are equal for structured-merge-diff.
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

// pointerTo returns a pointer to a value, or to a copy of one that has no address.
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

// member compares a part of two values, which each of them may have or not.
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

// whole inserts a value and all its parts into a set.
func (c *comparer) whole(set *fieldpath.Set, m *mergeType, v reflect.Value) {
	set.Insert(c.path)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	part := func(m *mergeType, at fieldpath.PathElement, v reflect.Value) {
		c.path = append(c.path, at)
		c.whole(set, m, v)
		c.path = c.path[:len(c.path)-1]
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
		for it := v.MapRange(); it.Next(); {
			part(m.element, fieldName(it.Key()), it.Value())
		}
	default:
		c.unique(m, v)
		for i := range v.Len() {
			part(m.element, c.elementOf(m, v.Index(i)), v.Index(i))
		}
	}
}

func fieldName(key reflect.Value) fieldpath.PathElement {
	name := key.String()
	return fieldpath.PathElement{FieldName: &name}
}

func (c *comparer) entries(m *mergeType, old, now reflect.Value) {
	for it := old.MapRange(); it.Next(); {
		y := now.MapIndex(it.Key())
		c.member(m.element, fieldName(it.Key()), it.Value(), y, true, y.IsValid())
	}
	for it := now.MapRange(); it.Next(); {
		if !old.MapIndex(it.Key()).IsValid() {
			c.member(m.element, fieldName(it.Key()), reflect.Value{}, it.Value(), false, true)
		}
	}
}

func (c *comparer) elements(m *mergeType, old, now reflect.Value) {
	c.unique(m, old)
	c.unique(m, now)
	for i := 0; i < old.Len() && !c.failed; i++ {
		x := old.Index(i)
		if j := c.indexOf(m, now, x, i); j >= 0 {
			c.member(m.element, c.elementOf(m, x), x, now.Index(j), true, true)
		} else {
			c.member(m.element, c.elementOf(m, x), x, reflect.Value{}, true, false)
		}
	}
	for j := 0; j < now.Len() && !c.failed; j++ {
		if y := now.Index(j); c.indexOf(m, old, y, j) < 0 {
			c.member(m.element, c.elementOf(m, y), reflect.Value{}, y, false, true)
		}
	}
}

// unique fails for a list that is long, has two elements of the same key, or has pointers.
func (c *comparer) unique(m *mergeType, list reflect.Value) {
	if list.Len() > maxElements || list.Type().Elem().Kind() == reflect.Pointer {
		c.failed = true
	}
	for i := 1; i < list.Len() && !c.failed; i++ {
		for j := range i {
			if c.writer.compare(m, list.Index(i), list.Index(j)) == 0 {
				c.failed = true
			}
		}
	}
}

// indexOf returns the index of the element of a list that has the key of x, or -1. It tries hint
// first.
func (c *comparer) indexOf(m *mergeType, list, x reflect.Value, hint int) int {
	if hint < list.Len() && c.writer.compare(m, list.Index(hint), x) == 0 {
		return hint
	}
	for i := range list.Len() {
		if c.writer.compare(m, list.Index(i), x) == 0 {
			return i
		}
	}
	return -1
}

// elementOf returns the path element of an element of a list.
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
