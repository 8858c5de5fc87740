package compact

import (
	"encoding/binary"
	"math"
	"reflect"
)

// anyPlan packs unstructured content: what JSON can say, in the types that
// unstructured objects have it in.
type anyPlan struct{}

const (
	anyNil byte = iota
	anyFalse
	anyTrue
	anyString
	anyInt
	anyFloat
	anyNilMap
	anyMap
	anyNilSlice
	anySlice
)

func (anyPlan) encode(e *encoder, v reflect.Value) { e.any(v.Interface()) }

func (anyPlan) decode(d *decoder, v reflect.Value) { *v.Addr().Interface().(*any) = d.any() }

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
		e.data = binary.BigEndian.AppendUint64(e.data, math.Float64bits(x))
	case map[string]any:
		if x == nil {
			e.byte(anyNilMap)
			return
		}
		e.byte(anyMap)
		e.uint(uint64(len(x)))
		for key, value := range x {
			e.string(key)
			e.any(value)
		}
	case []any:
		if x == nil {
			e.byte(anyNilSlice)
			return
		}
		e.byte(anySlice)
		e.uint(uint64(len(x)))
		for _, value := range x {
			e.any(value)
		}
	default:
		e.fail()
	}
}

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
		return math.Float64frombits(d.fixed())
	case anyNilMap:
		return map[string]any(nil)
	case anyMap:
		n := d.uint()
		m := make(map[string]any, n)
		for range n {
			key := d.string()
			m[key] = d.any()
		}
		return m
	case anyNilSlice:
		return []any(nil)
	case anySlice:
		values := make([]any, d.uint())
		for i := range values {
			values[i] = d.any()
		}
		return values
	default:
		return nil
	}
}
