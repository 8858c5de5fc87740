package compact

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// typedMapCodec packs maps of a key type of strings and an element type that is known here. The
// keys are sorted, so that equal maps have equal encodings.
//
// Unsafe: the methods rely on the contract of codec, on elem being the node of a type of the kind or
// size of V, and on the memory of maps being the same for all key types of one kind and all element
// types of one size without pointers.
type typedMapCodec[K ~string, V any] struct{ elem *node }

func (t *typedMapCodec[K, V]) encode(e *encoder, p unsafe.Pointer) {
	m := *(*map[K]V)(p)
	if m == nil {
		e.byte(0)
		return
	}
	e.variables++
	e.length(len(m))
	value := new(V)
	sorted(e, m, func(key string) {
		*value = m[K(key)]
		e.string(key)
		t.elem.encode(e, unsafe.Pointer(value))
	})
}

func (t *typedMapCodec[K, V]) decode(d *decoder, p unsafe.Pointer) {
	n, ok := d.length()
	if !ok {
		return
	}
	m := make(map[K]V, n)
	d.arena.CountMap(n, unsafe.Sizeof("")+t.elem.Size)
	*(*map[K]V)(p) = m
	value := new(V)
	for range n {
		key := K(d.string())
		clear(unsafe.Slice(value, 1))
		t.elem.decode(d, unsafe.Pointer(value))
		m[key] = *value
	}
}

func (t *typedMapCodec[K, V]) unalias(d *decoder, p unsafe.Pointer) {
	from := *(*map[K]V)(p)
	if from == nil {
		return
	}
	to := maps.Clone(from)
	d.arena.CountMap(len(to), unsafe.Sizeof("")+t.elem.Size)
	*(*map[K]V)(p) = to
	if t.elem.plain {
		return
	}
	copied, size := new(V), t.elem.Size
	for key, value := range from {
		*copied = value
		t.elem.unalias(d, unsafe.Pointer(copied))
		if !sameBytes(unsafe.Pointer(copied), unsafe.Pointer(&value), size) {
			to[key] = *copied
		}
	}
}

// sameBytes reports whether two variables of a size are equal to the bit.
//
// Unsafe: both have that size.
func sameBytes(a, b unsafe.Pointer, size uintptr) bool {
	return string(unsafe.Slice((*byte)(a), size)) == string(unsafe.Slice((*byte)(b), size))
}

// specialize returns a codec that copies only this map, and none of its values, if they refer to
// nothing, as most quantities do.
//
// Unsafe: p points to a map of the type, and V has the size of the node.
func (t *typedMapCodec[K, V]) specialize(p unsafe.Pointer) codec {
	copied := new(V)
	for _, value := range *(*map[K]V)(p) {
		*copied = value
		t.elem.unalias(&decoder{}, unsafe.Pointer(copied))
		if !sameBytes(unsafe.Pointer(copied), unsafe.Pointer(&value), t.elem.Size) {
			return t
		}
	}
	return &typedMapCodec[K, V]{&node{plain: true}}
}

// stringMapCodec packs maps of strings to strings, the most common ones.
//
// Unsafe: the methods rely on the contract of codec.
type stringMapCodec struct{}

func (stringMapCodec) encode(e *encoder, p unsafe.Pointer) {
	m := *(*map[string]string)(p)
	if m == nil {
		e.byte(0)
		return
	}
	e.variables++
	e.length(len(m))
	sorted(e, m, func(key string) {
		e.string(key)
		e.string(m[key])
	})
}

func (stringMapCodec) decode(d *decoder, p unsafe.Pointer) {
	n, ok := d.length()
	if !ok {
		return
	}
	m := make(map[string]string, n)
	d.arena.CountMap(n, 2*unsafe.Sizeof(""))
	*(*map[string]string)(p) = m
	for range n {
		key := d.string()
		m[key] = d.string()
	}
}

func (stringMapCodec) unalias(d *decoder, p unsafe.Pointer) {
	m := maps.Clone(*(*map[string]string)(p))
	d.arena.CountMap(len(m), 2*unsafe.Sizeof(""))
	*(*map[string]string)(p) = m
}

// mapCodec packs all other maps, by reflection.
//
// Unsafe: the methods rely on the contract of codec, and on key and elem being the nodes of
// the types of keys and elements.
type mapCodec struct {
	typ       reflect.Type
	key, elem *node
}

func (t *mapCodec) at(p unsafe.Pointer) reflect.Value { return reflect.NewAt(t.typ, p).Elem() }

func (t *mapCodec) encode(e *encoder, p unsafe.Pointer) {
	m := t.at(p)
	if m.IsNil() {
		e.byte(0)
		return
	}
	e.variables++
	e.length(m.Len())
	// Not every key is found again: one that is not a number equals nothing.
	type pair struct{ key, elem reflect.Value }
	pairs := make([]pair, 0, m.Len())
	for entry := m.MapRange(); entry.Next(); {
		key, elem := reflect.New(t.typ.Key()), reflect.New(t.typ.Elem())
		key.Elem().SetIterKey(entry)
		elem.Elem().SetIterValue(entry)
		pairs = append(pairs, pair{key, elem})
	}
	if t.typ.Key().Kind() == reflect.String {
		slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.key.Elem().String(), b.key.Elem().String()) })
	}
	for _, pair := range pairs {
		t.key.encode(e, pair.key.UnsafePointer())
		t.elem.encode(e, pair.elem.UnsafePointer())
	}
}

func (t *mapCodec) decode(d *decoder, p unsafe.Pointer) {
	n, ok := d.length()
	if !ok {
		return
	}
	m := reflect.MakeMapWithSize(t.typ, n)
	d.arena.CountMap(n, t.key.Size+t.elem.Size)
	key, elem := reflect.New(t.typ.Key()).Elem(), reflect.New(t.typ.Elem()).Elem()
	for range n {
		key.SetZero()
		elem.SetZero()
		t.key.decode(d, key.Addr().UnsafePointer())
		t.elem.decode(d, elem.Addr().UnsafePointer())
		m.SetMapIndex(key, elem)
	}
	t.at(p).Set(m)
}

func (t *mapCodec) unalias(d *decoder, p unsafe.Pointer) {
	from := t.at(p)
	if from.IsNil() {
		return
	}
	to := reflect.MakeMapWithSize(t.typ, from.Len())
	d.arena.CountMap(from.Len(), t.key.Size+t.elem.Size)
	key, elem := reflect.New(t.typ.Key()).Elem(), reflect.New(t.typ.Elem()).Elem()
	for entry := from.MapRange(); entry.Next(); {
		key.SetIterKey(entry)
		elem.SetIterValue(entry)
		t.key.unalias(d, key.Addr().UnsafePointer())
		t.elem.unalias(d, elem.Addr().UnsafePointer())
		to.SetMapIndex(key, elem)
	}
	from.Set(to)
}
