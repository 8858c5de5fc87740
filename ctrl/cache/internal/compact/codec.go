package compact

import (
	"reflect"
	"unsafe"

	"flyball.dev/ctrl/cache/internal/compact/arena"
)

// codec is how values of a Go type are packed, unpacked and copied. A codec is never changed once
// the type is known, so it may be used by many goroutines.
//
// Unsafe: the pointers that a codec is given are to variables of the type that it was built for,
// and nobody else accesses the variables meanwhile.
type codec interface {
	encode(*encoder, unsafe.Pointer)
	// decode fills a variable that is zero.
	decode(*decoder, unsafe.Pointer)
	unaliaser
}

// plain is embedded by codecs of types with independent shallow copies.
//
// Unsafe: the methods do not access the variable.
type plain struct{}

func (plain) unalias(*decoder, unsafe.Pointer) {}

func (plain) isPlain() {}

func isPlain(c codec) bool {
	_, ok := c.(interface{ isPlain() })
	return ok
}

// node is a Go type with its codec. Codecs refer to each other by nodes, so that types can be
// recursive.
type node struct {
	codec
	arena.Type
	typ reflect.Type
	// plain is set if the codec is, and noscan if variables of the type have no pointers.
	plain, noscan bool
}

func newNode(t reflect.Type) *node { return &node{Type: arena.NewType(t), typ: t, noscan: noscan(t)} }

// noscan reports whether variables of a type have no pointers.
func noscan(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if !noscan(t.Field(i).Type) {
				return false
			}
		}
		return true
	case reflect.Array:
		return noscan(t.Elem())
	default:
		return t.Kind() <= reflect.Complex128
	}
}

// copies returns copies of variables that are one after the other.
//
// Unsafe: from points to count variables of the node's type, which nobody changes meanwhile.
// Allocations without pointers, of two words or more, are aligned to a word, whatever their type.
func (d *decoder) copies(n *node, from unsafe.Pointer, count int) unsafe.Pointer {
	if n.noscan && n.Size > 0 && count >= minBulk {
		// Unlike new variables, these are not zeroed before.
		size := count * int(n.Size)
		d.arena.Allocated += size
		return unsafe.Pointer(unsafe.SliceData(append([]byte(nil), unsafe.Slice((*byte)(from), size)...)))
	}
	to := d.arena.New(&n.Type, count)
	n.move(to, from, count)
	if !n.plain {
		for i := range uintptr(count) {
			n.unalias(d, unsafe.Add(to, i*n.Size))
		}
	}
	return to
}

// minBulk is from how many variables on it is faster to copy them as a slice.
const minBulk = 4

// move makes shallow copies.
//
// Unsafe: both pointers are to count variables of the node's type. Variables with pointers are
// copied by reflect, so that the garbage collector is notified of the written pointers.
func (n *node) move(to, from unsafe.Pointer, count int) {
	switch {
	case n.noscan:
		size := uintptr(count) * n.Size
		copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(from), size))
		return
	case count >= minBulk:
		reflect.Copy(reflect.SliceAt(n.typ, to, count), reflect.SliceAt(n.typ, from, count))
		return
	case n.typ.Kind() == reflect.String && count == 1:
		*(*string)(to) = *(*string)(from)
		return
	}
	for i := range uintptr(count) {
		reflect.NewAt(n.typ, unsafe.Add(to, i*n.Size)).Elem().Set(reflect.NewAt(n.typ, unsafe.Add(from, i*n.Size)).Elem())
	}
}

// unsupportedCodec is the codec of types that cannot be packed. Zero values of such types are
// packed where structs leave them out.
//
// Unsafe: the methods do not access the variable.
type unsupportedCodec struct{ plain }

func (unsupportedCodec) encode(e *encoder, _ unsafe.Pointer) { e.fail() }
func (unsupportedCodec) decode(*decoder, unsafe.Pointer) {
	panic("compact: unpacking what cannot be packed")
}
