package compact

import (
	"reflect"
	"unsafe"
)

// part is the plan of something that the dictionary may have: a pointer, a slice
// or a map. Its token comes first.
type part struct {
	plan  // of what is not there
	slice bool
}

// slice is what a variable of a slice type is. Variables of all other parts are
// pointers.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

// variable returns a new variable that can hold the part.
func (t *part) variable() unsafe.Pointer {
	if t.slice {
		return unsafe.Pointer(new(slice))
	}
	return unsafe.Pointer(new(unsafe.Pointer))
}

func (t *part) encode(e *encoder, p unsafe.Pointer) {
	if !e.enter() {
		return
	}
	mark := e.begin(t)
	t.plan.encode(e, p)
	e.end(mark)
}

func (t *part) decode(d *decoder, p unsafe.Pointer) {
	shared := d.part()
	if shared == nil {
		t.plan.decode(d, p)
		return
	}
	m := d.model(shared)
	switch {
	case m == nil:
		outer := d.enter(shared.alone)
		t.plan.decode(d, p)
		d.leave(outer)
		return
	case t.slice:
		*(*slice)(p) = *(*slice)(m.variable)
	default:
		*(*unsafe.Pointer)(p) = *(*unsafe.Pointer)(m.variable)
	}
	m.own(d, t.plan, p)
}

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

// pointerPlan packs pointers. Those to leaves are no parts.
type pointerPlan struct{ elem *node }

func (t *pointerPlan) encode(e *encoder, p unsafe.Pointer) {
	elem := *(*unsafe.Pointer)(p)
	e.bool(elem != nil)
	if elem != nil {
		t.elem.encode(e, elem)
	}
}

func (t *pointerPlan) decode(d *decoder, p unsafe.Pointer) {
	if d.bool() {
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

// copies returns copies of variables that stand one after the other.
func (d *decoder) copies(n *node, from unsafe.Pointer, count int) unsafe.Pointer {
	to := d.stock.variables(n, count)
	n.move(to, from, count)
	if !n.plain {
		for i := range uintptr(count) {
			n.own(d, unsafe.Add(to, i*n.size))
		}
	}
	return to
}

// move makes shallow copies.
func (n *node) move(to, from unsafe.Pointer, count int) {
	for i := range uintptr(count) {
		reflect.NewAt(n.typ, unsafe.Add(to, i*n.size)).Elem().Set(reflect.NewAt(n.typ, unsafe.Add(from, i*n.size)).Elem())
	}
}

type slicePlan struct{ elem *node }

func (t *slicePlan) encode(e *encoder, p unsafe.Pointer) {
	s := (*slice)(p)
	if s.data == nil {
		e.byte(0)
		return
	}
	e.length(s.len)
	for i := range uintptr(s.len) {
		t.elem.encode(e, unsafe.Add(s.data, i*t.elem.size))
	}
}

func (t *slicePlan) decode(d *decoder, p unsafe.Pointer) {
	n, ok := d.length()
	if !ok {
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
