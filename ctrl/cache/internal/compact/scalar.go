package compact

import (
	"reflect"
	"unsafe"
)

// scalar returns the plan of a kind of values that lead to no others.
func scalar(k reflect.Kind) plan {
	switch k {
	case reflect.Bool:
		return boolPlan{}
	case reflect.String:
		return stringPlan{}
	case reflect.Int:
		return intPlan[int]{}
	case reflect.Int8:
		return intPlan[int8]{}
	case reflect.Int16:
		return intPlan[int16]{}
	case reflect.Int32:
		return intPlan[int32]{}
	case reflect.Int64:
		return intPlan[int64]{}
	case reflect.Uint:
		return uintPlan[uint]{}
	case reflect.Uint8:
		return uintPlan[uint8]{}
	case reflect.Uint16:
		return uintPlan[uint16]{}
	case reflect.Uint32:
		return uintPlan[uint32]{}
	case reflect.Uint64:
		return uintPlan[uint64]{}
	case reflect.Uintptr:
		return uintPlan[uintptr]{}
	case reflect.Float32:
		return float32Plan{}
	case reflect.Float64:
		return float64Plan{}
	default:
		return noPlan{}
	}
}

type boolPlan struct{ plain }

func (boolPlan) encode(e *encoder, p unsafe.Pointer) { e.bool(*(*bool)(p)) }
func (boolPlan) decode(d *decoder, p unsafe.Pointer) { *(*bool)(p) = d.bool() }

type intPlan[T int | int8 | int16 | int32 | int64] struct{ plain }

func (intPlan[T]) encode(e *encoder, p unsafe.Pointer) { e.int(int64(*(*T)(p))) }
func (intPlan[T]) decode(d *decoder, p unsafe.Pointer) { *(*T)(p) = T(d.int()) }

type uintPlan[T uint | uint8 | uint16 | uint32 | uint64 | uintptr] struct{ plain }

func (uintPlan[T]) encode(e *encoder, p unsafe.Pointer) { e.uint(uint64(*(*T)(p))) }
func (uintPlan[T]) decode(d *decoder, p unsafe.Pointer) { *(*T)(p) = T(d.uint()) }

// Floats are packed bit by bit: what is not a number, or zero with a sign, stays so.
type float32Plan struct{ plain }

func (float32Plan) encode(e *encoder, p unsafe.Pointer) { e.float32(*(*float32)(p)) }
func (float32Plan) decode(d *decoder, p unsafe.Pointer) { *(*float32)(p) = d.float32() }

type float64Plan struct{ plain }

func (float64Plan) encode(e *encoder, p unsafe.Pointer) { e.float(*(*float64)(p)) }
func (float64Plan) decode(d *decoder, p unsafe.Pointer) { *(*float64)(p) = d.float() }

type stringPlan struct{ plain }

func (stringPlan) encode(e *encoder, p unsafe.Pointer) { e.string(*(*string)(p)) }
func (stringPlan) decode(d *decoder, p unsafe.Pointer) { *(*string)(p) = d.string() }

// bytesPlan packs bytes as a string and whether they are nil.
type bytesPlan struct{}

func (bytesPlan) encode(e *encoder, p unsafe.Pointer) {
	b := *(*[]byte)(p)
	e.bool(b != nil)
	if b != nil {
		e.string(unsafe.String(unsafe.SliceData(b), len(b)))
	}
}

func (bytesPlan) decode(d *decoder, p unsafe.Pointer) {
	if d.bool() {
		s := d.string()
		*(*[]byte)(p) = append(d.stock.bytes(len(s)), s...)
	}
}

func (bytesPlan) own(d *decoder, p unsafe.Pointer) {
	if b := *(*[]byte)(p); b != nil {
		*(*[]byte)(p) = append(d.stock.bytes(len(b)), b...)
	}
}
