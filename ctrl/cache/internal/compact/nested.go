package compact

import (
	"reflect"
	"unsafe"
)

// subtreeCodec is the plan of something that the dictionary may have: a pointer, a slice
// or a map. Its token comes first.
type subtreeCodec struct {
	codec // of what is not there
	slice bool
}

// slice is what a variable of a slice type is. Variables of all other parts are
// pointers.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

// variable returns a new variable that can hold the part.
func (t *subtreeCodec) variable() unsafe.Pointer {
	if t.slice {
		return unsafe.Pointer(new(slice))
	}
	return unsafe.Pointer(new(unsafe.Pointer))
}

func (t *subtreeCodec) encode(e *encoder, p unsafe.Pointer) {
	if !e.enter() {
		return
	}
	mark := e.begin(t)
	t.codec.encode(e, p)
	e.end(mark)
}

func (t *subtreeCodec) decode(d *decoder, p unsafe.Pointer) {
	shared := d.subtree()
	if shared == nil {
		t.codec.decode(d, p)
		return
	}
	m := shared.prototype.Load()
	switch {
	case m == nil:
		outer := d.enter(shared.packed)
		t.codec.decode(d, p)
		d.leave(outer)
		return
	case t.slice:
		*(*slice)(p) = *(*slice)(m.variable)
	default:
		*(*unsafe.Pointer)(p) = *(*unsafe.Pointer)(m.variable)
	}
	m.unalias(d, t.codec, p)
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

// pointerCodec packs pointers. Those to leaves are no parts.
type pointerCodec struct{ elem *node }

func (t *pointerCodec) encode(e *encoder, p unsafe.Pointer) {
	elem := *(*unsafe.Pointer)(p)
	e.bool(elem != nil)
	if elem != nil {
		t.elem.encode(e, elem)
	}
}

func (t *pointerCodec) decode(d *decoder, p unsafe.Pointer) {
	if d.bool() {
		elem := d.arena.variables(t.elem, 1)
		*(*unsafe.Pointer)(p) = elem
		t.elem.decode(d, elem)
	}
}

func (t *pointerCodec) unalias(d *decoder, p unsafe.Pointer) {
	if elem := *(*unsafe.Pointer)(p); elem != nil {
		*(*unsafe.Pointer)(p) = d.copies(t.elem, elem, 1)
	}
}

// copies returns copies of variables that stand one after the other.
func (d *decoder) copies(n *node, from unsafe.Pointer, count int) unsafe.Pointer {
	to := d.arena.variables(n, count)
	n.move(to, from, count)
	if !n.plain {
		for i := range uintptr(count) {
			n.unalias(d, unsafe.Add(to, i*n.size))
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

type sliceCodec struct{ elem *node }

func (t *sliceCodec) encode(e *encoder, p unsafe.Pointer) {
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

func (t *sliceCodec) decode(d *decoder, p unsafe.Pointer) {
	n, ok := d.length()
	if !ok {
		return
	}
	data := d.arena.variables(t.elem, n)
	*(*slice)(p) = slice{data, n, n}
	for i := range uintptr(n) {
		t.elem.decode(d, unsafe.Add(data, i*t.elem.size))
	}
}

func (t *sliceCodec) unalias(d *decoder, p unsafe.Pointer) {
	if s := (*slice)(p); s.data != nil {
		*s = slice{d.copies(t.elem, s.data, s.len), s.len, s.len}
	}
}

type arrayCodec struct {
	elem *node
	len  int
}

func (t *arrayCodec) each(p unsafe.Pointer, do func(unsafe.Pointer)) {
	for i := range uintptr(t.len) {
		do(unsafe.Add(p, i*t.elem.size))
	}
}

func (t *arrayCodec) encode(e *encoder, p unsafe.Pointer) {
	t.each(p, func(elem unsafe.Pointer) { t.elem.encode(e, elem) })
}

func (t *arrayCodec) decode(d *decoder, p unsafe.Pointer) {
	t.each(p, func(elem unsafe.Pointer) { t.elem.decode(d, elem) })
}

func (t *arrayCodec) unalias(d *decoder, p unsafe.Pointer) {
	t.each(p, func(elem unsafe.Pointer) { t.elem.unalias(d, elem) })
}
