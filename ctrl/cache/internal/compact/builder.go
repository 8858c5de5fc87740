package compact

import (
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Type is a Go type with values that can be packed.
type Type struct{ codec codec }

// TypeOf returns a type.
func TypeOf(t reflect.Type) Type { return Type{nodeOf(t).codec} }

// nodes are the nodes of the types that were requested. A node is complete before another goroutine
// sees it.
var nodes struct {
	known    sync.Map
	building sync.Mutex
}

// nodeOf returns the node of a type.
func nodeOf(t reflect.Type) *node {
	if n, ok := nodes.known.Load(t); ok {
		return n.(*node)
	}
	nodes.building.Lock()
	defer nodes.building.Unlock()
	b := builder{}
	n := b.of(t)
	for t, n := range b {
		n.plain = isPlain(n.codec)
		nodes.known.Store(t, n)
	}
	return n
}

// builder builds the codecs of a type and of the types that it refers to: the nodes that are built
// together, which may refer to each other before they are complete.
type builder map[reflect.Type]*node

// of returns the node of a type. The codec of the node may not be built yet.
func (b builder) of(t reflect.Type) *node {
	if n, ok := nodes.known.Load(t); ok {
		return n.(*node)
	}
	n := b[t]
	if n == nil {
		n = newNode(t)
		b[t] = n
		n.codec = b.codec(t)
	}
	return n
}

// codec builds the codec of a type.
func (b builder) codec(t reflect.Type) codec {
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
		pointer := &pointerCodec{b.of(t.Elem())}
		if leaf(t.Elem()) {
			return pointer
		}
		return &subtreeCodec{codec: pointer, kind: reflect.Pointer}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesCodec{}
		}
		return &subtreeCodec{codec: &sliceCodec{b.of(t.Elem())}, kind: reflect.Slice}
	case reflect.Array:
		return &arrayCodec{b.of(t.Elem()), t.Len()}
	case reflect.Map:
		return &subtreeCodec{codec: b.mapCodec(t), kind: reflect.Map}
	case reflect.Struct:
		return b.structCodec(t)
	default:
		return scalar(t.Kind())
	}
}

// structCodec builds the codec of a struct. A struct of one field is packed as that field.
func (b builder) structCodec(t reflect.Type) codec {
	s := &structCodec{}
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() && !(field.Anonymous && field.Type.Kind() == reflect.Struct) {
			s.fields = append(s.fields, fieldCodec{field.Offset, field.Type.Size(), unsupportedCodec{}})
			continue
		}
		n := b.of(field.Type)
		switch p := n.codec.(type) {
		case nil:
			// The type is recursive, and the codec of the field is being built.
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
	for _, f := range s.fields {
		if !isPlain(f.codec) {
			s.indirect = append(s.indirect, f)
		}
	}
	if s.indirect == nil {
		return plainStruct{structCodec: s}
	}
	return s
}

// scalar returns the codec of a kind of values that refer to no others.
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

// timesAndQuantities returns the codecs of types that have unexported fields, nil for others.
func timesAndQuantities(t reflect.Type) codec {
	switch t {
	case reflect.TypeFor[time.Time]():
		return timeCodec{}
	case reflect.TypeFor[resource.Quantity]():
		if !quantitiesArePacked {
			return unsupportedCodec{}
		}
		return quantityCodec{}
	default:
		return nil
	}
}

// mapCodec returns the codec of a map type. Common types have codecs that need no reflection.
func (b builder) mapCodec(t reflect.Type) codec {
	switch t {
	case reflect.TypeFor[map[string]any]():
		return anyMapCodec{}
	case reflect.TypeFor[map[string][]byte]():
		return &typedMapCodec[string, []byte]{b.of(t.Elem())}
	case reflect.TypeFor[corev1.ResourceList]():
		return &typedMapCodec[corev1.ResourceName, resource.Quantity]{b.of(t.Elem())}
	}
	if t.Key().Kind() == reflect.String {
		if c := b.scalarMapCodec(t); c != nil {
			return c
		}
	}
	key := b.of(t.Key())
	if hasPointers(t.Key()) {
		key = &node{codec: unsupportedCodec{}}
	}
	return &mapCodec{t, key, b.of(t.Elem())}
}

// scalarMapCodec returns the codec of a map of strings to strings or to values without pointers, nil
// for others.
func (b builder) scalarMapCodec(t reflect.Type) codec {
	switch t.Elem().Kind() {
	case reflect.String:
		return stringMapCodec{}
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return &typedMapCodec[string, uint8]{b.of(t.Elem())}
	case reflect.Int16, reflect.Uint16:
		return &typedMapCodec[string, uint16]{b.of(t.Elem())}
	case reflect.Int32, reflect.Uint32, reflect.Float32:
		return &typedMapCodec[string, uint32]{b.of(t.Elem())}
	case reflect.Int64, reflect.Uint64, reflect.Float64:
		return &typedMapCodec[string, uint64]{b.of(t.Elem())}
	default:
		return nil
	}
}

// hasPointers reports whether values of a type have pointers, by which a copy of a key of a map is
// another key.
func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Chan, reflect.UnsafePointer:
		return true
	case reflect.Array:
		return hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// leaf reports whether the variables that pointers to a type point to are too small to be interned.
func leaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return t.NumField() == 0 || timesAndQuantities(t) != nil ||
			t.NumField() == 1 && t.Field(0).IsExported() && leaf(t.Field(0).Type)
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Array:
		return false
	default:
		return true
	}
}
