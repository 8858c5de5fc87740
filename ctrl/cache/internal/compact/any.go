package compact

import (
	"maps"
	"reflect"
	"unsafe"
)

// anyCodec packs unstructured content: a byte for the JSON type, and the value in the Go type that
// unstructured objects have for it.
//
// Unsafe: the methods rely on the contract of codec.
type anyCodec struct{}

// The maps and slices in unstructured content are subtrees as others are.
var (
	anyMaps   = &subtreeCodec{codec: anyMapCodec{}, kind: reflect.Map}
	anySlices = &subtreeCodec{codec: anySliceCodec{}, kind: reflect.Slice}
)

const (
	anyNil byte = iota
	anyFalse
	anyTrue
	anyString
	anyInt
	anyFloat
	anyMap
	anySlice
)

func (anyCodec) encode(e *encoder, p unsafe.Pointer)  { e.any(*(*any)(p)) }
func (anyCodec) decode(d *decoder, p unsafe.Pointer)  { *(*any)(p) = d.any() }
func (anyCodec) unalias(_ *decoder, p unsafe.Pointer) { *(*any)(p) = copyAny(*(*any)(p)) }

// any writes a value, and fails if JSON has none such.
//
// Unsafe: the pointers are to variables of the types of the subtrees.
func (e *encoder) any(x any) {
	switch x := x.(type) {
	case nil:
		e.byte(anyNil)
	case bool:
		if x {
			e.byte(anyTrue)
		} else {
			e.byte(anyFalse)
		}
	case string:
		e.byte(anyString)
		e.string(x)
	case int64:
		e.byte(anyInt)
		e.int(x)
	case float64:
		e.byte(anyFloat)
		e.float(x)
	case map[string]any:
		e.byte(anyMap)
		if e.enter() {
			mark := e.begin(anyMaps)
			e.anyMap(x)
			e.end(mark)
			if len(x) >= minKept {
				e.weigh(mark, len(x), true, unsafe.Pointer(&[]map[string]any{x}[0]))
				e.marks[mark].slow = 0 // copies allocate too: a variable for each text and number
			}
		}
	case []any:
		e.byte(anySlice)
		if e.enter() {
			mark := e.begin(anySlices)
			e.anySlice(x)
			e.end(mark)
			if len(x) >= minKept {
				e.weigh(mark, len(x), false, unsafe.Pointer(&[][]any{x}[0]))
				e.marks[mark].slow = 0 // as above
			}
		}
	default:
		e.fail()
	}
}

// any reads a value.
func (d *decoder) any() any {
	switch d.byte() {
	case anyFalse:
		return false
	case anyTrue:
		return true
	case anyString:
		return d.string()
	case anyInt:
		return d.int()
	case anyFloat:
		return d.float()
	case anyMap:
		return anySubtree(d, (*decoder).anyMap, copyAnyMap)
	case anySlice:
		return anySubtree(d, (*decoder).anySlice, copyAnySlice)
	default:
		return nil
	}
}

// anySubtree reads a map or a slice, which may be interned, or copies its prototype.
//
// Unsafe: the variable of the prototype is of the type that read returns.
func anySubtree[T any](d *decoder, read func(*decoder) T, clone func(T) T) any {
	interned := d.subtree()
	if interned == nil {
		return read(d)
	}
	if proto := d.prototype(interned); proto != nil {
		return clone(*(*T)(proto.variable))
	}
	defer d.leave(d.enter(interned.packed))
	return read(d)
}

// anyMapCodec packs objects of unstructured content.
//
// Unsafe: the methods rely on the contract of codec.
type anyMapCodec struct{}

func (anyMapCodec) encode(e *encoder, p unsafe.Pointer) { e.anyMap(*(*map[string]any)(p)) }
func (anyMapCodec) decode(d *decoder, p unsafe.Pointer) { *(*map[string]any)(p) = d.anyMap() }

func (anyMapCodec) unalias(_ *decoder, p unsafe.Pointer) {
	*(*map[string]any)(p) = copyAnyMap(*(*map[string]any)(p))
}

func (e *encoder) anyMap(m map[string]any) {
	if m == nil {
		e.byte(0)
		return
	}
	e.variables++
	e.length(len(m))
	sorted(e, m, func(key string) {
		e.string(key)
		e.any(m[key])
	})
}

// anyMap reads an object.
//
// Unsafe: only sizes are used.
func (d *decoder) anyMap() map[string]any {
	n, ok := d.length()
	if !ok {
		return nil
	}
	m := make(map[string]any, n)
	d.arena.CountMap(n, unsafe.Sizeof("")+unsafe.Sizeof(any(nil)))
	for range n {
		key := d.string()
		m[key] = d.any()
	}
	return m
}

// anySliceCodec packs arrays of unstructured content.
//
// Unsafe: the methods rely on the contract of codec.
type anySliceCodec struct{}

func (anySliceCodec) encode(e *encoder, p unsafe.Pointer) { e.anySlice(*(*[]any)(p)) }
func (anySliceCodec) decode(d *decoder, p unsafe.Pointer) { *(*[]any)(p) = d.anySlice() }

func (anySliceCodec) unalias(_ *decoder, p unsafe.Pointer) {
	*(*[]any)(p) = copyAnySlice(*(*[]any)(p))
}

func (e *encoder) anySlice(s []any) {
	if s == nil {
		e.byte(0)
		return
	}
	e.variables++
	e.length(len(s))
	for _, value := range s {
		e.any(value)
	}
}

// anySlice reads an array.
//
// Unsafe: only sizes are used.
func (d *decoder) anySlice() []any {
	n, ok := d.length()
	if !ok {
		return nil
	}
	s := make([]any, n)
	d.arena.Allocated += n * int(unsafe.Sizeof(s[0]))
	for i := range s {
		s[i] = d.any()
	}
	return s
}

func copyAny(x any) any {
	switch x := x.(type) {
	case map[string]any:
		return copyAnyMap(x)
	case []any:
		return copyAnySlice(x)
	default:
		return x
	}
}

func copyAnyMap(from map[string]any) map[string]any {
	to := maps.Clone(from)
	for key, value := range from {
		switch value.(type) {
		case map[string]any, []any:
			to[key] = copyAny(value)
		}
	}
	return to
}

func copyAnySlice(from []any) []any {
	if from == nil {
		return nil
	}
	to := make([]any, len(from))
	for i, value := range from {
		to[i] = copyAny(value)
	}
	return to
}
