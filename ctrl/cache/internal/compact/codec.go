package compact

import (
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// codec is how values of a type are packed, unpacked and copied. What it is given
// are pointers to variables of that type.
type codec interface {
	encode(*encoder, unsafe.Pointer)
	// decode fills a variable that is zero.
	decode(*decoder, unsafe.Pointer)
	// unalias gives a variable that is a shallow copy of another one what that one
	// leads to, as copies of its own.
	unalias(*decoder, unsafe.Pointer)
}

// plain is the part of a plan that says that shallow copies are copies.
type plain struct{}

func (plain) unalias(*decoder, unsafe.Pointer) {}

func (plain) isPlain() {}

func isPlain(p codec) bool {
	_, ok := p.(interface{ isPlain() })
	return ok
}

// node is a type with its plan. Plans lead to each other by nodes, so that a type
// can lead to itself.
type node struct {
	codec
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
	shapes map[string]*blockType
}

func init() { nodes.shapes = map[string]*blockType{} }

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
	made := builder{}
	n := made.of(t)
	for t, n := range made {
		n.plain = isPlain(n.codec)
		nodes.known.Store(t, n)
	}
	return n
}

// builder are the nodes that are made together.
type builder map[reflect.Type]*node

func (made builder) of(t reflect.Type) *node {
	if n, ok := nodes.known.Load(t); ok {
		return n.(*node)
	}
	n := made[t]
	if n == nil {
		n = newNode(t)
		made[t] = n
		n.codec = made.codec(t)
	}
	return n
}

func (made builder) codec(t reflect.Type) codec {
	switch t {
	case reflect.TypeFor[metav1.FieldsV1]():
		return fieldsCodec{}
	case reflect.TypeFor[any]():
		return anyCodec{}
	}
	if p := timesAndQuantities(t); p != nil {
		return p
	}
	switch t.Kind() {
	case reflect.Pointer:
		pointer := &pointerCodec{made.of(t.Elem())}
		if leaf(t.Elem()) {
			return pointer
		}
		return &subtreeCodec{codec: pointer}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesCodec{}
		}
		return &subtreeCodec{codec: &sliceCodec{made.of(t.Elem())}, slice: true}
	case reflect.Array:
		return &arrayCodec{made.of(t.Elem()), t.Len()}
	case reflect.Map:
		return &subtreeCodec{codec: made.mapCodec(t)}
	case reflect.Struct:
		return made.structCodec(t)
	default:
		return scalar(t.Kind())
	}
}

// fieldCodec is a field of a struct, or of a struct in it.
type fieldCodec struct {
	offset, size uintptr
	codec        codec
}

// structCodec packs the fields that are not zero, each after its number. The
// fields of structs in the struct are its own.
type structCodec struct {
	fields []fieldCodec
	// indirect are the steps whose plans are not plain.
	indirect []fieldCodec
}

// plainStruct is the plan of a struct without deep steps.
type plainStruct struct {
	*structCodec
	plain
}

func (s plainStruct) unalias(d *decoder, p unsafe.Pointer) { s.plain.unalias(d, p) }

func (made builder) structCodec(t reflect.Type) codec {
	s := &structCodec{}
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() && !(field.Anonymous && field.Type.Kind() == reflect.Struct) {
			s.fields = append(s.fields, fieldCodec{field.Offset, field.Type.Size(), unsupportedCodec{}})
			continue
		}
		n := made.of(field.Type)
		switch p := n.codec.(type) {
		case nil:
			// The struct is part of what its field leads to, whose plan is
			// being made.
			s.fields = append(s.fields, fieldCodec{field.Offset, field.Type.Size(), n})
		case *structCodec:
			s.inline(p, field.Offset)
		case plainStruct:
			s.inline(p.structCodec, field.Offset)
		default:
			s.fields = append(s.fields, fieldCodec{field.Offset, field.Type.Size(), p})
		}
	}
	if len(s.fields) == 1 && s.fields[0].size == t.Size() && s.fields[0].codec != codec(unsupportedCodec{}) {
		return s.fields[0].codec
	}
	for _, step := range s.fields {
		if !isPlain(step.codec) {
			s.indirect = append(s.indirect, step)
		}
	}
	if s.indirect == nil {
		return plainStruct{structCodec: s}
	}
	return s
}

// inline takes the steps of a struct that is a field.
func (s *structCodec) inline(field *structCodec, offset uintptr) {
	for _, step := range field.fields {
		step.offset += offset
		s.fields = append(s.fields, step)
	}
}

func (s *structCodec) encode(e *encoder, p unsafe.Pointer) {
	for i := range s.fields {
		step := &s.fields[i]
		if field := unsafe.Add(p, step.offset); !isZero(field, step.size) {
			e.uint(uint64(i) + 1)
			step.codec.encode(e, field)
		}
	}
	e.byte(0)
}

func (s *structCodec) decode(d *decoder, p unsafe.Pointer) {
	for n := d.uint(); n > 0; n = d.uint() {
		step := &s.fields[n-1]
		step.codec.decode(d, unsafe.Add(p, step.offset))
	}
}

func (s *structCodec) unalias(d *decoder, p unsafe.Pointer) {
	for i := range s.indirect {
		step := &s.indirect[i]
		if field := unsafe.Add(p, step.offset); !isZero(field, step.size) {
			step.codec.unalias(d, field)
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

// unsupportedCodec is for what cannot be packed. Zero values of such types go by unnoticed
// where structs leave them out.
type unsupportedCodec struct{ plain }

func (unsupportedCodec) encode(e *encoder, _ unsafe.Pointer) { e.fail() }
func (unsupportedCodec) decode(*decoder, unsafe.Pointer) {
	panic("compact: unpacking what cannot be packed")
}
