package compact

import (
	"reflect"
	"unsafe"
)

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
	e.length(s.len)
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
