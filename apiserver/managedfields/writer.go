package managedfields

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"

	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// writer writes a field set in the encoding of FieldsV1: an object with a key for each field, in which "." stands for
// the field itself if it has parts.
//
// A writer has two walks. For a value that the JSON of an empty object contains, such as a nested struct, changed
// writes the parts that differ from the empty object. For any other value, added writes the field and all of its parts.
//
//upstream:sigs.k8s.io/structured-merge-diff/v6/fieldpath.Set.ToJSON
type writer struct {
	out    []byte
	failed bool // something cannot be written
}

// changed writes the fields of a struct that differ from the zero struct.
func (w *writer) changed(m *mergeType, v reflect.Value) {
	for _, f := range m.fields {
		x := f.GetFrom(v)
		if f.CanOmit(x) {
			continue
		}
		if f.absentEmpty {
			w.key(f.key)
			w.added(f.typ, x)
			continue
		}
		w.changedField(f, x)
	}
}

// changedField writes a field if its value differs. The JSON of an empty struct has the field.
func (w *writer) changedField(f *structField, v reflect.Value) {
	if v.IsZero() {
		return
	}
	start := len(w.out)
	w.key(f.key)
	switch {
	case v.Kind() == reflect.Struct && f.typ.granularity == granularStruct:
		w.out = append(w.out, '{')
		inside := len(w.out)
		w.changed(f.typ, v)
		if len(w.out) == inside {
			w.out = w.out[:start]
			return
		}
		w.out = append(w.out, '}')
	case f.typ.granularity == atomic:
		if v.Kind() == reflect.Struct && encodesAsEmpty(v) {
			w.out = w.out[:start]
			return
		}
		w.out = append(w.out, '{', '}')
	default: // null in the empty struct: the field is not new, but its parts are
		w.out = append(w.out, '{')
		w.parts(f.typ, reflect.Indirect(v))
		w.out = append(w.out, '}')
	}
}

// encodesAsEmpty reports whether a struct has the same JSON as an empty struct.
func encodesAsEmpty(v reflect.Value) bool {
	x, err := value.NewValueReflect(v.Addr().Interface())
	if err != nil {
		return false
	}
	y, err := value.NewValueReflect(reflect.New(v.Type()).Interface())
	return err == nil && value.Equals(x, y)
}

// added writes a field that the empty object lacks, with all its parts.
func (w *writer) added(m *mergeType, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			w.out = append(w.out, '{', '}')
			return
		}
		v = v.Elem()
	}
	w.out = append(w.out, '{')
	if m.granularity != atomic {
		start := len(w.out)
		w.out = append(w.out, `".":{}`...)
		inside := len(w.out)
		w.parts(m, v)
		if len(w.out) == inside {
			w.out = w.out[:start]
		}
	}
	w.out = append(w.out, '}')
}

// parts writes all parts of a value.
func (w *writer) parts(m *mergeType, v reflect.Value) {
	switch m.granularity {
	case granularStruct:
		for _, f := range m.fields {
			if x := f.GetFrom(v); !f.CanOmit(x) {
				w.key(f.key)
				w.added(f.typ, x)
			}
		}
	case granularMap:
		w.entries(m, v)
	case listSet, listMap:
		w.elements(m, v)
	}
}

func (w *writer) entries(m *mergeType, v reflect.Value) {
	if v.Len() == 0 {
		return
	}
	for _, name := range sortedKeys(v) {
		w.comma()
		w.out = append(w.out, `"f:`...)
		w.plain(name.String())
		w.out = append(w.out, `":`...)
		w.added(m.element, v.MapIndex(name))
	}
}

// sortedKeys returns the keys of a map in order, so that inserting them into a sorted set is appending.
func sortedKeys(v reflect.Value) []reflect.Value {
	keys := make([]reflect.Value, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		keys = append(keys, it.Key())
	}
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	return keys
}

// elements writes the elements of a list in the order of their keys.
func (w *writer) elements(m *mergeType, v reflect.Value) {
	if v.Len() == 0 {
		return
	}
	order, distinct := w.order(m, v)
	w.failed = w.failed || !distinct
	for _, i := range order {
		x := v.Index(i)
		w.comma()
		if m.granularity == listSet {
			w.out = append(w.out, `"v:`...)
			w.scalar(x)
			w.out = append(w.out, `":`...)
		} else {
			w.out = append(w.out, `"k:{`...)
			for k, key := range m.keys {
				if k > 0 {
					w.out = append(w.out, ',')
				}
				w.out = append(w.out, key.escaped...)
				w.scalar(w.keyValue(key, x))
			}
			w.out = append(w.out, `}":`...)
		}
		w.added(m.element, x)
	}
}

// order returns the indexes of the elements of a list in the order of their keys, and whether the keys are distinct.
func (w *writer) order(m *mergeType, list reflect.Value) (order []int, distinct bool) {
	order = make([]int, list.Len())
	for i := range order {
		order[i] = i
	}
	compare := func(i, j int) int { return w.compare(m, list.Index(i), list.Index(j)) }
	slices.SortFunc(order, compare)
	distinct = true
	for n := 1; n < len(order); n++ {
		distinct = distinct && compare(order[n-1], order[n]) != 0
	}
	return order, distinct
}

// compare compares the keys of two elements of a list.
func (w *writer) compare(m *mergeType, a, b reflect.Value) int {
	if m.granularity == listSet {
		return compareScalars(a, b)
	}
	for _, key := range m.keys {
		if c := compareScalars(w.keyValue(key, a), w.keyValue(key, b)); c != 0 {
			return c
		}
	}
	return 0
}

// keyValue returns a key of an element, or its default if the element lacks the key.
func (w *writer) keyValue(key listKey, element reflect.Value) reflect.Value {
	v := key.GetFrom(element)
	if !key.CanOmit(v) {
		return v
	}
	if !key.fallback.IsValid() {
		w.failed = true
		return v
	}
	return key.fallback
}

func compareScalars(a, b reflect.Value) int {
	if a.Kind() == reflect.String {
		return cmp.Compare(a.String(), b.String())
	}
	return cmp.Compare(a.Int(), b.Int())
}

// scalar writes a value as JSON within a JSON string.
func (w *writer) scalar(v reflect.Value) {
	if v.Kind() == reflect.String {
		w.out = append(w.out, '\\', '"')
		w.plain(v.String())
		w.out = append(w.out, '\\', '"')
		return
	}
	w.out = strconv.AppendInt(w.out, v.Int(), 10)
}

// plain writes text that needs no escaping in JSON at any depth of quoting.
func (w *writer) plain(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			w.failed = true
		}
	}
	w.out = append(w.out, s...)
}

func (w *writer) key(k string) {
	w.comma()
	w.out = append(w.out, k...)
}

func (w *writer) comma() {
	if w.out[len(w.out)-1] != '{' {
		w.out = append(w.out, ',')
	}
}
