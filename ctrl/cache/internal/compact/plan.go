package compact

import (
	"encoding/binary"
	"math"
	"reflect"
	"sync"
)

// plan is how values of a type are packed and unpacked. Every value that it is
// given can be set, and is zero before it is unpacked.
type plan interface {
	encode(*encoder, reflect.Value)
	decode(*decoder, reflect.Value)
}

// node stands for the plan of a type where another plan leads to it, which may be
// the plan itself.
type node struct{ plan }

// plans are the nodes of the types that were asked for. A node is whole before
// another goroutine sees it.
var plans struct {
	known  sync.Map
	making sync.Mutex
}

// planOf returns the plan of a type.
func planOf(t reflect.Type) plan {
	if n, ok := plans.known.Load(t); ok {
		return n.(*node)
	}
	plans.making.Lock()
	defer plans.making.Unlock()
	made := nodes{}
	n := made.of(t)
	for t, n := range made {
		plans.known.Store(t, n)
	}
	return n
}

// nodes are the nodes that are made together.
type nodes map[reflect.Type]*node

func (made nodes) of(t reflect.Type) *node {
	if n, ok := plans.known.Load(t); ok {
		return n.(*node)
	}
	n := made[t]
	if n == nil {
		n = &node{}
		made[t] = n
		n.plan = made.plan(t)
	}
	return n
}

func (made nodes) plan(t reflect.Type) plan {
	if p, ok := special[t]; ok {
		return p
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolPlan{}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intPlan{}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return uintPlan{}
	case reflect.Float32, reflect.Float64:
		return floatPlan{}
	case reflect.String:
		return stringPlan{}
	case reflect.Pointer:
		return pointerPlan{t.Elem(), made.of(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesPlan{}
		}
		return slicePlan{made.of(t.Elem())}
	case reflect.Array:
		return arrayPlan{made.of(t.Elem())}
	case reflect.Map:
		return mapPlan{t, made.of(t.Key()), made.of(t.Elem())}
	case reflect.Struct:
		return made.structPlan(t)
	default:
		return noPlan{}
	}
}

// noPlan is for what cannot be packed. Zero values of such types go by unnoticed
// where structs leave them out.
type noPlan struct{}

func (noPlan) encode(e *encoder, _ reflect.Value) { e.fail() }
func (noPlan) decode(*decoder, reflect.Value)     { panic("compact: unpacking what cannot be packed") }

type boolPlan struct{}

func (boolPlan) encode(e *encoder, v reflect.Value) {
	if v.Bool() {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (boolPlan) decode(d *decoder, v reflect.Value) { v.SetBool(d.byte() == 1) }

type intPlan struct{}

func (intPlan) encode(e *encoder, v reflect.Value) { e.int(v.Int()) }
func (intPlan) decode(d *decoder, v reflect.Value) { v.SetInt(d.int()) }

type uintPlan struct{}

func (uintPlan) encode(e *encoder, v reflect.Value) { e.uint(v.Uint()) }
func (uintPlan) decode(d *decoder, v reflect.Value) { v.SetUint(d.uint()) }

type floatPlan struct{}

func (floatPlan) encode(e *encoder, v reflect.Value) {
	e.data = binary.BigEndian.AppendUint64(e.data, math.Float64bits(v.Float()))
}

func (floatPlan) decode(d *decoder, v reflect.Value) { v.SetFloat(math.Float64frombits(d.fixed())) }

type stringPlan struct{}

func (stringPlan) encode(e *encoder, v reflect.Value) { e.string(v.String()) }
func (stringPlan) decode(d *decoder, v reflect.Value) { v.SetString(d.string()) }

// The lengths of what can be nil are one more than they are, and zero for nil.

type bytesPlan struct{}

func (bytesPlan) encode(e *encoder, v reflect.Value) {
	if v.IsNil() {
		e.byte(0)
		return
	}
	e.byte(1)
	e.string(string(v.Bytes()))
}

func (bytesPlan) decode(d *decoder, v reflect.Value) {
	if d.byte() == 1 {
		v.SetBytes(append([]byte{}, d.string()...))
	}
}

type pointerPlan struct {
	elem reflect.Type
	plan *node
}

func (p pointerPlan) encode(e *encoder, v reflect.Value) {
	if v.IsNil() {
		e.byte(0)
		return
	}
	e.byte(1)
	p.plan.encode(e, v.Elem())
}

func (p pointerPlan) decode(d *decoder, v reflect.Value) {
	if d.byte() == 1 {
		v.Set(reflect.New(p.elem))
		p.plan.decode(d, v.Elem())
	}
}

type slicePlan struct{ plan *node }

func (p slicePlan) encode(e *encoder, v reflect.Value) {
	if v.IsNil() {
		e.byte(0)
		return
	}
	n := v.Len()
	e.uint(uint64(n) + 1)
	for i := range n {
		p.plan.encode(e, v.Index(i))
	}
}

func (p slicePlan) decode(d *decoder, v reflect.Value) {
	n := int(d.uint()) - 1
	switch {
	case n < 0:
		return
	case n == 0:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return
	}
	v.Grow(n)
	v.SetLen(n)
	for i := range n {
		p.plan.decode(d, v.Index(i))
	}
}

type arrayPlan struct{ plan *node }

func (p arrayPlan) encode(e *encoder, v reflect.Value) {
	for i := range v.Len() {
		p.plan.encode(e, v.Index(i))
	}
}

func (p arrayPlan) decode(d *decoder, v reflect.Value) {
	for i := range v.Len() {
		p.plan.decode(d, v.Index(i))
	}
}

// mapPlan packs maps of any type; those of strings to strings are so common that
// they have a way of their own.
type mapPlan struct {
	typ        reflect.Type
	key, value *node
}

func (p mapPlan) encode(e *encoder, v reflect.Value) {
	if v.IsNil() {
		e.byte(0)
		return
	}
	e.uint(uint64(v.Len()) + 1)
	if m, ok := stringMap(v); ok {
		for key, value := range *m {
			e.string(key)
			e.string(value)
		}
		return
	}
	key, value := reflect.New(p.typ.Key()).Elem(), reflect.New(p.typ.Elem()).Elem()
	for entry := v.MapRange(); entry.Next(); {
		key.SetIterKey(entry)
		value.SetIterValue(entry)
		p.key.encode(e, key)
		p.value.encode(e, value)
	}
}

func (p mapPlan) decode(d *decoder, v reflect.Value) {
	n := int(d.uint()) - 1
	if n < 0 {
		return
	}
	if m, ok := stringMap(v); ok {
		*m = make(map[string]string, n)
		for range n {
			key := d.string()
			(*m)[key] = d.string()
		}
		return
	}
	v.Set(reflect.MakeMapWithSize(p.typ, n))
	key, value := reflect.New(p.typ.Key()).Elem(), reflect.New(p.typ.Elem()).Elem()
	for range n {
		key.SetZero()
		value.SetZero()
		p.key.decode(d, key)
		p.value.decode(d, value)
		v.SetMapIndex(key, value)
	}
}

func stringMap(v reflect.Value) (*map[string]string, bool) {
	m, ok := v.Addr().Interface().(*map[string]string)
	return m, ok
}

// structPlan packs the fields that are not zero, each after its number.
type structPlan []plan

func (made nodes) structPlan(t reflect.Type) plan {
	p := make(structPlan, t.NumField())
	for i := range p {
		p[i] = noPlan{}
		if field := t.Field(i); field.IsExported() {
			p[i] = made.of(field.Type)
		}
	}
	return p
}

func (p structPlan) encode(e *encoder, v reflect.Value) {
	for i, plan := range p {
		if field := v.Field(i); !field.IsZero() {
			e.uint(uint64(i) + 1)
			plan.encode(e, field)
		}
	}
	e.byte(0)
}

func (p structPlan) decode(d *decoder, v reflect.Value) {
	for n := d.uint(); n > 0; n = d.uint() {
		p[n-1].decode(d, v.Field(int(n-1)))
	}
}
