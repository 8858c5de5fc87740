package compact

import (
	"slices"
	"unsafe"
)

// boolCodec packs a bool as a byte.
//
// Unsafe: the methods rely on the contract of codec.
type boolCodec struct{ plain }

func (boolCodec) encode(e *encoder, p unsafe.Pointer) { e.bool(*(*bool)(p)) }
func (boolCodec) decode(d *decoder, p unsafe.Pointer) { *(*bool)(p) = d.bool() }

// intCodec packs signed integers in zigzag encoding.
//
// Unsafe: the methods rely on the contract of codec, and on T having the kind of the type.
type intCodec[T int | int8 | int16 | int32 | int64] struct{ plain }

func (intCodec[T]) encode(e *encoder, p unsafe.Pointer) { e.int(int64(*(*T)(p))) }
func (intCodec[T]) decode(d *decoder, p unsafe.Pointer) { *(*T)(p) = T(d.int()) }

// uintCodec packs unsigned integers.
//
// Unsafe: the methods rely on the contract of codec, and on T having the kind of the type.
type uintCodec[T uint | uint8 | uint16 | uint32 | uint64 | uintptr] struct{ plain }

func (uintCodec[T]) encode(e *encoder, p unsafe.Pointer) { e.uint(uint64(*(*T)(p))) }
func (uintCodec[T]) decode(d *decoder, p unsafe.Pointer) { *(*T)(p) = T(d.uint()) }

// float32Codec packs the bits of floats: NaN stays the same NaN, and zero keeps its sign.
//
// Unsafe: the methods rely on the contract of codec.
type float32Codec struct{ plain }

func (float32Codec) encode(e *encoder, p unsafe.Pointer) { e.float32(*(*float32)(p)) }
func (float32Codec) decode(d *decoder, p unsafe.Pointer) { *(*float32)(p) = d.float32() }

// float64Codec does the same for longer ones.
//
// Unsafe: the methods rely on the contract of codec.
type float64Codec struct{ plain }

func (float64Codec) encode(e *encoder, p unsafe.Pointer) { e.float(*(*float64)(p)) }
func (float64Codec) decode(d *decoder, p unsafe.Pointer) { *(*float64)(p) = d.float() }

// stringCodec packs strings. Unpacked ones refer to the packed value or to the intern table, which
// are immutable.
//
// Unsafe: the methods rely on the contract of codec.
type stringCodec struct{ plain }

func (stringCodec) encode(e *encoder, p unsafe.Pointer) { e.string(*(*string)(p)) }
func (stringCodec) decode(d *decoder, p unsafe.Pointer) { *(*string)(p) = d.string() }

// bytesCodec packs bytes as a string and whether they are nil.
//
// Unsafe: the methods rely on the contract of codec, and encode on the bytes not being
// changed until the value is packed, as the encoder refers to them as a string.
type bytesCodec struct{}

func (bytesCodec) encode(e *encoder, p unsafe.Pointer) {
	b := *(*[]byte)(p)
	e.bool(b != nil)
	if b != nil {
		e.variables++
		e.string(unsafe.String(unsafe.SliceData(b), len(b)))
	}
}

// decode makes bytes that are in memory alone, as programs keep secrets for long.
func (bytesCodec) decode(d *decoder, p unsafe.Pointer) {
	if d.bool() {
		s := d.string()
		d.arena.Allocated += len(s)
		*(*[]byte)(p) = slices.Clip([]byte(s))
	}
}

func (bytesCodec) unalias(d *decoder, p unsafe.Pointer) {
	b := *(*[]byte)(p)
	d.arena.Allocated += len(b)
	*(*[]byte)(p) = slices.Clip(slices.Clone(b))
}
