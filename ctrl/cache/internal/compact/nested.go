package compact

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// The lengths of what can be nil are one more than they are, and zero for nil.

// leaf tells whether pointers to a type are not worth sharing.
func leaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return t.NumField() == 0 || timesAndQuantities(t) != nil || t.NumField() == 1 && t.Field(0).IsExported() && leaf(t.Field(0).Type)
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Array:
		return false
	default:
		return true
	}
}

// leafPlan packs pointers to what leads nowhere else.
type leafPlan struct{ elem *node }

func (l *leafPlan) encode(e *encoder, p unsafe.Pointer) {
	elem := *(*unsafe.Pointer)(p)
	e.bool(elem != nil)
	if elem != nil {
		l.elem.encode(e, elem)
	}
}

func (l *leafPlan) decode(d *decoder, p unsafe.Pointer) {
	if d.bool() {
		elem := d.stock.variables(l.elem, 1)
		*(*unsafe.Pointer)(p) = elem
		l.elem.decode(d, elem)
	}
}

func (l *leafPlan) own(d *decoder, p unsafe.Pointer) {
	if elem := *(*unsafe.Pointer)(p); elem != nil {
		*(*unsafe.Pointer)(p) = d.copies(l.elem, elem, 1)
	}
}

// copies returns copies of variables that stand one after the other.
func (d *decoder) copies(n *node, from unsafe.Pointer, count int) unsafe.Pointer {
	to := d.stock.variables(n, count)
	for i := range uintptr(count) {
		variable := unsafe.Add(to, i*n.size)
		n.move(variable, unsafe.Add(from, i*n.size))
		if !n.plain {
			n.own(d, variable)
		}
	}
	return to
}

// move makes a shallow copy.
func (n *node) move(to, from unsafe.Pointer) {
	reflect.NewAt(n.typ, to).Elem().Set(reflect.NewAt(n.typ, from).Elem())
}

type pointerPlan struct{ elem *node }

func (*pointerPlan) variable() unsafe.Pointer { return unsafe.Pointer(new(unsafe.Pointer)) }

func (t *pointerPlan) encode(e *encoder, p unsafe.Pointer) {
	defer e.end(e.begin(t))
	elem := *(*unsafe.Pointer)(p)
	e.bool(elem != nil)
	if elem != nil {
		t.elem.encode(e, elem)
	}
}

func (t *pointerPlan) decode(d *decoder, p unsafe.Pointer) {
	if part := d.part(); part != nil {
		*(*unsafe.Pointer)(p) = *(*unsafe.Pointer)(part.variable)
		part.own(d, t, p)
	} else if d.bool() {
		elem := d.stock.variables(t.elem, 1)
		*(*unsafe.Pointer)(p) = elem
		t.elem.decode(d, elem)
	}
}

func (t *pointerPlan) own(d *decoder, p unsafe.Pointer) {
	if elem := *(*unsafe.Pointer)(p); elem != nil {
		*(*unsafe.Pointer)(p) = d.copies(t.elem, elem, 1)
	}
}

type slicePlan struct{ elem *node }

// slice is what a variable of a slice type is.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

func (*slicePlan) variable() unsafe.Pointer { return unsafe.Pointer(new(slice)) }

func (t *slicePlan) encode(e *encoder, p unsafe.Pointer) {
	defer e.end(e.begin(t))
	s := (*slice)(p)
	if s.data == nil {
		e.byte(0)
		return
	}
	e.uint(uint64(s.len) + 1)
	for i := range uintptr(s.len) {
		t.elem.encode(e, unsafe.Add(s.data, i*t.elem.size))
	}
}

func (t *slicePlan) decode(d *decoder, p unsafe.Pointer) {
	if part := d.part(); part != nil {
		*(*slice)(p) = *(*slice)(part.variable)
		part.own(d, t, p)
		return
	}
	n := int(d.uint()) - 1
	if n < 0 {
		return
	}
	data := d.stock.variables(t.elem, n)
	*(*slice)(p) = slice{data, n, n}
	for i := range uintptr(n) {
		t.elem.decode(d, unsafe.Add(data, i*t.elem.size))
	}
}

func (t *slicePlan) own(d *decoder, p unsafe.Pointer) {
	if s := (*slice)(p); s.data != nil {
		*s = slice{d.copies(t.elem, s.data, s.len), s.len, s.len}
	}
}

type arrayPlan struct {
	elem *node
	len  int
}

func (t *arrayPlan) each(p unsafe.Pointer, do func(unsafe.Pointer)) {
	for i := range uintptr(t.len) {
		do(unsafe.Add(p, i*t.elem.size))
	}
}

func (t *arrayPlan) encode(e *encoder, p unsafe.Pointer) {
	t.each(p, func(elem unsafe.Pointer) { t.elem.encode(e, elem) })
}

func (t *arrayPlan) decode(d *decoder, p unsafe.Pointer) {
	t.each(p, func(elem unsafe.Pointer) { t.elem.decode(d, elem) })
}

func (t *arrayPlan) own(d *decoder, p unsafe.Pointer) {
	t.each(p, func(elem unsafe.Pointer) { t.elem.own(d, elem) })
}

// mapOf packs maps by strings of a type that is known here. The keys go in order,
// so that equal maps look equal.
type mapOf[K ~string, V any] struct{ elem *node }

func (*mapOf[K, V]) variable() unsafe.Pointer { return unsafe.Pointer(new(map[K]V)) }

func (t *mapOf[K, V]) encode(e *encoder, p unsafe.Pointer) {
	defer e.end(e.begin(t))
	m := *(*map[K]V)(p)
	if m == nil {
		e.byte(0)
		return
	}
	e.uint(uint64(len(m)) + 1)
	value := new(V)
	sorted(e, m, func(key string) {
		*value = m[K(key)]
		e.string(key)
		t.elem.encode(e, unsafe.Pointer(value))
	})
}

func (t *mapOf[K, V]) decode(d *decoder, p unsafe.Pointer) {
	if part := d.part(); part != nil {
		*(*map[K]V)(p) = *(*map[K]V)(part.variable)
		t.own(d, p)
		return
	}
	n := int(d.uint()) - 1
	if n < 0 {
		return
	}
	m := make(map[K]V, n)
	*(*map[K]V)(p) = m
	value := new(V)
	for range n {
		key := K(d.string())
		clear(unsafe.Slice(value, 1))
		t.elem.decode(d, unsafe.Pointer(value))
		m[key] = *value
	}
}

func (t *mapOf[K, V]) own(d *decoder, p unsafe.Pointer) {
	from := *(*map[K]V)(p)
	if from == nil {
		return
	}
	to := maps.Clone(from)
	*(*map[K]V)(p) = to
	if t.elem.plain {
		return
	}
	copied := new(V)
	for key, value := range from {
		*copied = value
		t.elem.own(d, unsafe.Pointer(copied))
		to[key] = *copied
	}
}

// simplest returns a simpler plan by which copies of a map are made if it has no
// values that lead to anything, as most quantities do not.
func (t *mapOf[K, V]) simplest(p unsafe.Pointer) plan {
	copied := new(V)
	for _, value := range *(*map[K]V)(p) {
		*copied = value
		t.elem.own(&decoder{}, unsafe.Pointer(copied))
		size := int(t.elem.size)
		if string(unsafe.Slice((*byte)(unsafe.Pointer(copied)), size)) != string(unsafe.Slice((*byte)(unsafe.Pointer(&value)), size)) {
			return t
		}
	}
	return &mapOf[K, V]{&node{plain: true}}
}

// stringsPlan packs maps of strings to strings, which are so common that they have
// a way of their own.
type stringsPlan struct{}

func (stringsPlan) variable() unsafe.Pointer { return unsafe.Pointer(new(map[string]string)) }

func (t stringsPlan) encode(e *encoder, p unsafe.Pointer) {
	defer e.end(e.begin(t))
	m := *(*map[string]string)(p)
	if m == nil {
		e.byte(0)
		return
	}
	e.uint(uint64(len(m)) + 1)
	sorted(e, m, func(key string) {
		e.string(key)
		e.string(m[key])
	})
}

func (t stringsPlan) decode(d *decoder, p unsafe.Pointer) {
	if part := d.part(); part != nil {
		*(*map[string]string)(p) = maps.Clone(*(*map[string]string)(part.variable))
		return
	}
	n := int(d.uint()) - 1
	if n < 0 {
		return
	}
	m := make(map[string]string, n)
	*(*map[string]string)(p) = m
	for range n {
		key := d.string()
		m[key] = d.string()
	}
}

func (stringsPlan) own(_ *decoder, p unsafe.Pointer) {
	*(*map[string]string)(p) = maps.Clone(*(*map[string]string)(p))
}

// mapPlan packs all other maps.
type mapPlan struct {
	typ       reflect.Type
	key, elem *node
}

func (*mapPlan) variable() unsafe.Pointer { return unsafe.Pointer(new(unsafe.Pointer)) }

func (t *mapPlan) at(p unsafe.Pointer) reflect.Value { return reflect.NewAt(t.typ, p).Elem() }

func (t *mapPlan) encode(e *encoder, p unsafe.Pointer) {
	defer e.end(e.begin(t))
	m := t.at(p)
	if m.IsNil() {
		e.byte(0)
		return
	}
	e.uint(uint64(m.Len()) + 1)
	keys := m.MapKeys()
	if t.typ.Key().Kind() == reflect.String {
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	}
	key, elem := reflect.New(t.typ.Key()), reflect.New(t.typ.Elem())
	for _, k := range keys {
		key.Elem().Set(k)
		elem.Elem().Set(m.MapIndex(k))
		t.key.encode(e, key.UnsafePointer())
		t.elem.encode(e, elem.UnsafePointer())
	}
}

func (t *mapPlan) decode(d *decoder, p unsafe.Pointer) {
	if part := d.part(); part != nil {
		*(*unsafe.Pointer)(p) = *(*unsafe.Pointer)(part.variable)
		part.own(d, t, p)
		return
	}
	n := int(d.uint()) - 1
	if n < 0 {
		return
	}
	m := reflect.MakeMapWithSize(t.typ, n)
	for range n {
		key, elem := reflect.New(t.typ.Key()), reflect.New(t.typ.Elem())
		t.key.decode(d, key.UnsafePointer())
		t.elem.decode(d, elem.UnsafePointer())
		m.SetMapIndex(key.Elem(), elem.Elem())
	}
	t.at(p).Set(m)
}

func (t *mapPlan) own(d *decoder, p unsafe.Pointer) {
	from := t.at(p)
	if from.IsNil() {
		return
	}
	to := reflect.MakeMapWithSize(t.typ, from.Len())
	for entry := from.MapRange(); entry.Next(); {
		key, elem := reflect.New(t.typ.Key()), reflect.New(t.typ.Elem())
		key.Elem().SetIterKey(entry)
		elem.Elem().SetIterValue(entry)
		t.key.own(d, key.UnsafePointer())
		t.elem.own(d, elem.UnsafePointer())
		to.SetMapIndex(key.Elem(), elem.Elem())
	}
	from.Set(to)
}
