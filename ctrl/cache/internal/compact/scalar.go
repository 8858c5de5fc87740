package compact

import (
	"reflect"
	"unsafe"
)

// scalar returns the plan of a kind of values that lead to no others.
func scalar(k reflect.Kind) codec {
	switch k {
	case reflect.Bool:
		return boolCodec{}
	case reflect.String:
		return stringCodec{}
	case reflect.Int:
		return intCodec[int]{}
	case reflect.Int8:
		return intCodec[int8]{}
	case reflect.Int16:
		return intCodec[int16]{}
	case reflect.Int32:
		return intCodec[int32]{}
	case reflect.Int64:
		return intCodec[int64]{}
	case reflect.Uint:
		return uintCodec[uint]{}
	case reflect.Uint8:
		return uintCodec[uint8]{}
	case reflect.Uint16:
		return uintCodec[uint16]{}
	case reflect.Uint32:
		return uintCodec[uint32]{}
	case reflect.Uint64:
		return uintCodec[uint64]{}
	case reflect.Uintptr:
		return uintCodec[uintptr]{}
	case reflect.Float32:
		return float32Codec{}
	case reflect.Float64:
		return float64Codec{}
	default:
		return unsupportedCodec{}
	}
}

type boolCodec struct{ plain }

func (boolCodec) encode(e *encoder, p unsafe.Pointer) { e.bool(*(*bool)(p)) }
func (boolCodec) decode(d *decoder, p unsafe.Pointer) { *(*bool)(p) = d.bool() }

type intCodec[T int | int8 | int16 | int32 | int64] struct{ plain }

func (intCodec[T]) encode(e *encoder, p unsafe.Pointer) { e.int(int64(*(*T)(p))) }
func (intCodec[T]) decode(d *decoder, p unsafe.Pointer) { *(*T)(p) = T(d.int()) }

type uintCodec[T uint | uint8 | uint16 | uint32 | uint64 | uintptr] struct{ plain }

func (uintCodec[T]) encode(e *encoder, p unsafe.Pointer) { e.uint(uint64(*(*T)(p))) }
func (uintCodec[T]) decode(d *decoder, p unsafe.Pointer) { *(*T)(p) = T(d.uint()) }

// Floats are packed bit by bit: what is not a number, or zero with a sign, stays so.
type float32Codec struct{ plain }

func (float32Codec) encode(e *encoder, p unsafe.Pointer) { e.float32(*(*float32)(p)) }
func (float32Codec) decode(d *decoder, p unsafe.Pointer) { *(*float32)(p) = d.float32() }

type float64Codec struct{ plain }

func (float64Codec) encode(e *encoder, p unsafe.Pointer) { e.float(*(*float64)(p)) }
func (float64Codec) decode(d *decoder, p unsafe.Pointer) { *(*float64)(p) = d.float() }

type stringCodec struct{ plain }

func (stringCodec) encode(e *encoder, p unsafe.Pointer) { e.string(*(*string)(p)) }
func (stringCodec) decode(d *decoder, p unsafe.Pointer) { *(*string)(p) = d.string() }

// bytesCodec packs bytes as a string and whether they are nil.
type bytesCodec struct{}

func (bytesCodec) encode(e *encoder, p unsafe.Pointer) {
	b := *(*[]byte)(p)
	e.bool(b != nil)
	if b != nil {
		e.string(unsafe.String(unsafe.SliceData(b), len(b)))
	}
}

func (bytesCodec) decode(d *decoder, p unsafe.Pointer) {
	if d.bool() {
		s := d.string()
		*(*[]byte)(p) = append(d.arena.bytes(len(s)), s...)
	}
}

func (bytesCodec) unalias(d *decoder, p unsafe.Pointer) {
	if b := *(*[]byte)(p); b != nil {
		*(*[]byte)(p) = append(d.arena.bytes(len(b)), b...)
	}
}
