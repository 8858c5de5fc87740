package compact

import (
	"reflect"
	"unsafe"
)

// subtreeCodec is the codec of a pointer, a slice or a map, which may be interned as a whole. The
// token comes first, and the content follows unless the token is an ID.
//
// Unsafe: the methods rely on the contract of codec, and on kind being the kind of the type; variables
// of pointer and map types are one pointer.
type subtreeCodec struct {
	codec // of the content
	kind  reflect.Kind
}

// slice is the memory layout of a variable of a slice type.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

// variable returns a new variable that has room for the value and is scanned as a pointer.
func (t *subtreeCodec) variable() unsafe.Pointer {
	if t.kind == reflect.Slice {
		return unsafe.Pointer(new(slice))
	}
	return unsafe.Pointer(new(unsafe.Pointer))
}

// assign makes a variable a shallow copy of another one.
func (t *subtreeCodec) assign(to, from unsafe.Pointer) {
	if t.kind == reflect.Slice {
		*(*slice)(to) = *(*slice)(from)
	} else {
		*(*unsafe.Pointer)(to) = *(*unsafe.Pointer)(from)
	}
}

// elements returns how many elements a slice or a map has. The length does not depend on the type.
func (t *subtreeCodec) elements(p unsafe.Pointer) int {
	switch t.kind {
	case reflect.Slice:
		return (*slice)(p).len
	case reflect.Map:
		return len(*(*map[string]string)(p))
	default:
		return 0
	}
}

func (t *subtreeCodec) encode(e *encoder, p unsafe.Pointer) {
	if !e.enter() {
		return
	}
	mark := e.begin(t)
	t.codec.encode(e, p)
	e.end(mark)
	e.weigh(mark, t.elements(p), t.kind == reflect.Map, p)
}

func (t *subtreeCodec) decode(d *decoder, p unsafe.Pointer) {
	interned := d.subtree()
	if interned == nil {
		t.codec.decode(d, p)
		return
	}
	proto := d.prototype(interned)
	if proto == nil {
		outer := d.enter(interned.packed)
		t.codec.decode(d, p)
		d.leave(outer)
		return
	}
	t.assign(p, proto.variable)
	proto.unalias(d, p)
}

// pointerCodec packs pointers: whether a pointer is nil, and its variable.
//
// Unsafe: the methods rely on the contract of codec, and on elem being the node of the type that is
// pointed to.
type pointerCodec struct{ elem *node }

func (t *pointerCodec) encode(e *encoder, p unsafe.Pointer) {
	elem := *(*unsafe.Pointer)(p)
	e.bool(elem != nil)
	if elem != nil {
		e.variables++
		t.elem.encode(e, elem)
	}
}

func (t *pointerCodec) decode(d *decoder, p unsafe.Pointer) {
	if d.bool() {
		elem := d.arena.New(&t.elem.Type, 1)
		*(*unsafe.Pointer)(p) = elem
		t.elem.decode(d, elem)
	}
}

func (t *pointerCodec) unalias(d *decoder, p unsafe.Pointer) {
	if elem := *(*unsafe.Pointer)(p); elem != nil {
		*(*unsafe.Pointer)(p) = d.copies(t.elem, elem, 1)
	}
}

// sliceCodec packs slices: the length, and the elements.
//
// Unsafe: the methods rely on the contract of codec, on the layout of slices, and on elem being the
// node of the element type. The size of this type is the distance of elements.
type sliceCodec struct{ elem *node }

func (t *sliceCodec) encode(e *encoder, p unsafe.Pointer) {
	s := (*slice)(p)
	if s.data == nil {
		e.byte(0)
		return
	}
	e.variables++
	e.length(s.len)
	for i := range uintptr(s.len) {
		t.elem.encode(e, unsafe.Add(s.data, i*t.elem.Size))
	}
}

func (t *sliceCodec) decode(d *decoder, p unsafe.Pointer) {
	n, ok := d.length()
	if !ok {
		return
	}
	data := d.arena.New(&t.elem.Type, n)
	*(*slice)(p) = slice{data, n, n}
	for i := range uintptr(n) {
		t.elem.decode(d, unsafe.Add(data, i*t.elem.Size))
	}
}

func (t *sliceCodec) unalias(d *decoder, p unsafe.Pointer) {
	if s := (*slice)(p); s.data != nil {
		*s = slice{d.copies(t.elem, s.data, s.len), s.len, s.len}
	}
}

// arrayCodec packs arrays: the elements.
//
// Unsafe: the methods rely on the contract of codec, on elem being the node of the element type, and
// on the array having len elements.
type arrayCodec struct {
	elem *node
	len  int
}

func (t *arrayCodec) each(p unsafe.Pointer, do func(unsafe.Pointer)) {
	for i := range uintptr(t.len) {
		do(unsafe.Add(p, i*t.elem.Size))
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
