package compact

import (
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plan is how values of a type are packed, unpacked and copied. What it is given
// are pointers to variables of that type.
type plan interface {
	encode(*encoder, unsafe.Pointer)
	// decode fills a variable that is zero.
	decode(*decoder, unsafe.Pointer)
	// own gives a variable that is a shallow copy of another one what that one
	// leads to, as copies of its own.
	own(*decoder, unsafe.Pointer)
}

// plain is the part of a plan that says that shallow copies are copies.
type plain struct{}

func (plain) own(*decoder, unsafe.Pointer) {}

func (plain) isPlain() {}

func isPlain(p plan) bool {
	_, ok := p.(interface{ isPlain() })
	return ok
}

// node is a type with its plan. Plans lead to each other by nodes, so that a type
// can lead to itself.
type node struct {
	plan
	typ, slice reflect.Type
	size       uintptr
	// plain is set if the plan is; number is one of a row.
	plain  bool
	number int
}

// nodes are those of the types that were asked for. A node is whole before
// another goroutine sees it.
var nodes struct {
	known  sync.Map
	making sync.Mutex
	count  atomic.Int64
	// shapes are those of images, by what is in them.
	shapes map[string]*shape
}

func init() { nodes.shapes = map[string]*shape{} }

func newNode(t reflect.Type) *node {
	return &node{typ: t, slice: reflect.SliceOf(t), size: t.Size(), number: int(nodes.count.Add(1)) - 1}
}

// nodeOf returns the node of a type.
func nodeOf(t reflect.Type) *node {
	if n, ok := nodes.known.Load(t); ok {
		return n.(*node)
	}
	nodes.making.Lock()
	defer nodes.making.Unlock()
	made := young{}
	n := made.of(t)
	for t, n := range made {
		n.plain = isPlain(n.plan)
		nodes.known.Store(t, n)
	}
	return n
}

// young are the nodes that are made together.
type young map[reflect.Type]*node

func (made young) of(t reflect.Type) *node {
	if n, ok := nodes.known.Load(t); ok {
		return n.(*node)
	}
	n := made[t]
	if n == nil {
		n = newNode(t)
		made[t] = n
		n.plan = made.plan(t)
	}
	return n
}

func (made young) plan(t reflect.Type) plan {
	switch t {
	case reflect.TypeFor[metav1.FieldsV1]():
		return fieldsPlan{}
	case reflect.TypeFor[any]():
		return anyPlan{}
	}
	if p := timesAndQuantities(t); p != nil {
		return p
	}
	switch t.Kind() {
	case reflect.Pointer:
		pointer := &pointerPlan{made.of(t.Elem())}
		if leaf(t.Elem()) {
			return pointer
		}
		return &part{plan: pointer}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesPlan{}
		}
		return &part{plan: &slicePlan{made.of(t.Elem())}, slice: true}
	case reflect.Array:
		return &arrayPlan{made.of(t.Elem()), t.Len()}
	case reflect.Map:
		return &part{plan: made.mapPlan(t)}
	case reflect.Struct:
		return made.structPlan(t)
	default:
		return scalar(t.Kind())
	}
}

// step is a field of a struct, or of a struct in it.
type step struct {
	offset, size uintptr
	plan         plan
}

// structPlan packs the fields that are not zero, each after its number. The
// fields of structs in the struct are its own.
type structPlan struct {
	steps []step
	// deep are the steps whose plans are not plain.
	deep []step
}

// plainStruct is the plan of a struct without deep steps.
type plainStruct struct {
	*structPlan
	plain
}

func (s plainStruct) own(d *decoder, p unsafe.Pointer) { s.plain.own(d, p) }

func (made young) structPlan(t reflect.Type) plan {
	s := &structPlan{}
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() && !(field.Anonymous && field.Type.Kind() == reflect.Struct) {
			s.steps = append(s.steps, step{field.Offset, field.Type.Size(), noPlan{}})
			continue
		}
		n := made.of(field.Type)
		switch p := n.plan.(type) {
		case nil:
			// The struct is part of what its field leads to, whose plan is
			// being made.
			s.steps = append(s.steps, step{field.Offset, field.Type.Size(), n})
		case *structPlan:
			s.take(p, field.Offset)
		case plainStruct:
			s.take(p.structPlan, field.Offset)
		default:
			s.steps = append(s.steps, step{field.Offset, field.Type.Size(), p})
		}
	}
	if len(s.steps) == 1 && s.steps[0].size == t.Size() && s.steps[0].plan != plan(noPlan{}) {
		return s.steps[0].plan
	}
	for _, step := range s.steps {
		if !isPlain(step.plan) {
			s.deep = append(s.deep, step)
		}
	}
	if s.deep == nil {
		return plainStruct{structPlan: s}
	}
	return s
}

// take takes the steps of a struct that is a field.
func (s *structPlan) take(field *structPlan, offset uintptr) {
	for _, step := range field.steps {
		step.offset += offset
		s.steps = append(s.steps, step)
	}
}

func (s *structPlan) encode(e *encoder, p unsafe.Pointer) {
	for i := range s.steps {
		step := &s.steps[i]
		if field := unsafe.Add(p, step.offset); !isZero(field, step.size) {
			e.uint(uint64(i) + 1)
			step.plan.encode(e, field)
		}
	}
	e.byte(0)
}

func (s *structPlan) decode(d *decoder, p unsafe.Pointer) {
	for n := d.uint(); n > 0; n = d.uint() {
		step := &s.steps[n-1]
		step.plan.decode(d, unsafe.Add(p, step.offset))
	}
}

func (s *structPlan) own(d *decoder, p unsafe.Pointer) {
	for i := range s.deep {
		step := &s.deep[i]
		if field := unsafe.Add(p, step.offset); !isZero(field, step.size) {
			step.plan.own(d, field)
		}
	}
}

// isZero tells whether all bytes of a variable are zero.
func isZero(p unsafe.Pointer, size uintptr) bool {
	at := uintptr(0)
	for ; at+8 <= size; at += 8 {
		if *(*uint64)(unsafe.Add(p, at)) != 0 {
			return false
		}
	}
	for ; at < size; at++ {
		if *(*byte)(unsafe.Add(p, at)) != 0 {
			return false
		}
	}
	return true
}

// noPlan is for what cannot be packed. Zero values of such types go by unnoticed
// where structs leave them out.
type noPlan struct{ plain }

func (noPlan) encode(e *encoder, _ unsafe.Pointer) { e.fail() }
func (noPlan) decode(*decoder, unsafe.Pointer)     { panic("compact: unpacking what cannot be packed") }
