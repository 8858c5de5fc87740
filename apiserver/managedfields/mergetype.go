package managedfields

import (
	"cmp"
	"reflect"
	"slices"
	"sync"

	"sigs.k8s.io/structured-merge-diff/v6/value"

	"flyball.dev/apiserver/schema"
)

// mergeType describes how a Go type merges at one place: as a whole, or by parts that have their own managers. It holds
// everything that a walk over values needs to know of the type.
type mergeType struct {
	granularity granularity
	fields      []*structField // of granularStruct, ordered by name
	element     *mergeType     // of granularMap, listSet and listMap
	keys        []listKey      // of listMap, ordered by name
	nested      bool           // atomic, with parts that structured-merge-diff may not accept
}

// granularity describes which parts of a value can have different managers.
type granularity int

const (
	atomic         granularity = iota // none: a scalar, or a map or list that is atomic
	granularStruct                    // its fields
	granularMap                       // its entries
	listSet                           // its elements, identified by their values
	listMap                           // its elements, identified by the values of some of their fields
)

// structField is a field of a granularStruct.
type structField struct {
	*value.FieldCacheEntry
	key         string // in FieldsV1, with quotes and the colon
	typ         *mergeType
	absentEmpty bool // JSON of an empty struct leaves the field out
}

// listKey is a key field of the elements of a listMap.
type listKey struct {
	*structField
	escaped  string        // its name in a key of FieldsV1, with quotes and the colon
	fallback reflect.Value // its default, invalid if there is none
}

var mergeTypes sync.Map // reflect.Type → func() *mergeType

// mergeTypeOf returns the merge type of a kind's Go type, or nil if any part of it has no schema.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.typeConverter
func mergeTypeOf(t reflect.Type) *mergeType {
	build, ok := mergeTypes.Load(t)
	if !ok {
		build, _ = mergeTypes.LoadOrStore(t, sync.OnceValue(func() *mergeType {
			b := builder{structs: map[reflect.Type]*mergeType{}}
			m := b.typ(t, schema.Field{})
			if b.unsupported || m.granularity != granularStruct {
				return nil
			}
			return m
		}))
	}
	return build.(func() *mergeType)()
}

// builder builds the merge types of a type and all types within it, once each.
type builder struct {
	structs     map[reflect.Type]*mergeType
	unsupported bool // something has no schema
}

// typ returns the merge type of t. If t is the type of a field, in describes how t merges there.
func (b *builder) typ(t reflect.Type, in schema.Field) *mergeType {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	described := schema.Describe(t)
	b.unsupported = b.unsupported || described == schema.Unknown
	switch {
	case described != schema.Composite:
		return &mergeType{}
	case t.Kind() == reflect.Struct:
		if cmp.Or(in.MapType(), schema.MapType(t)) == "atomic" {
			return &mergeType{nested: mayBeInvalid(t, nil)}
		}
		return b.structType(t)
	case t.Kind() == reflect.Map:
		if in.MapType() == "atomic" {
			return &mergeType{nested: mayBeInvalid(t, nil)}
		}
		return &mergeType{granularity: granularMap, element: b.typ(t.Elem(), schema.Field{})}
	default:
		kind, keys := in.ListType()
		if kind == "atomic" {
			return &mergeType{nested: mayBeInvalid(t, nil)}
		}
		return b.listType(t, keys)
	}
}

// mayBeInvalid reports whether structured-merge-diff may reject a value of a type: a part of it has no schema, may be null in a
// list, or is an element of an associative list that may lack its key. within are the structs around the type.
func mayBeInvalid(t reflect.Type, within []reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch described := schema.Describe(t); {
	case described == schema.Unknown:
		return true
	case described != schema.Composite || slices.Contains(within, t):
		return false
	case t.Kind() != reflect.Struct:
		return t.Elem().Kind() == reflect.Pointer || mayBeInvalid(t.Elem(), within)
	}
	within = append(slices.Clone(within), t)
	return slices.ContainsFunc(schema.Fields(t), func(f schema.Field) bool {
		return mayLackKey(f) || mayBeInvalid(f.Type, within)
	})
}

// mayLackKey reports whether an element of a list may lack one of the keys of the list.
func mayLackKey(list schema.Field) bool {
	_, keys := list.ListType()
	if len(keys) == 0 {
		return false
	}
	t := list.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	element := t.Elem()
	return slices.ContainsFunc(schema.Fields(element), func(f schema.Field) bool {
		entry := value.TypeReflectEntryOf(element).Fields()[f.JSONName]
		return slices.Contains(keys, f.JSONName) && f.Default() == nil && entry.CanOmit(entry.GetFrom(reflect.New(element).Elem()))
	})
}

func (b *builder) structType(t reflect.Type) *mergeType {
	if m, ok := b.structs[t]; ok {
		return m
	}
	m := &mergeType{granularity: granularStruct}
	b.structs[t] = m
	for _, f := range schema.Fields(t) {
		m.fields = append(m.fields, b.structField(t, f))
	}
	slices.SortFunc(m.fields, func(a, b *structField) int { return cmp.Compare(a.JsonName, b.JsonName) })
	return m
}

func (b *builder) structField(parent reflect.Type, f schema.Field) *structField {
	s := &structField{
		FieldCacheEntry: value.TypeReflectEntryOf(parent).Fields()[f.JSONName],
		key:             `"f:` + f.JSONName + `":`,
		typ:             b.typ(f.Type, f),
	}
	s.absentEmpty = s.CanOmit(s.GetFrom(reflect.New(parent).Elem()))
	return s
}

// listType returns the merge type of an associative list: a map by keys, or a set if there are no keys.
func (b *builder) listType(t reflect.Type, keys []string) *mergeType {
	m := &mergeType{granularity: listSet, element: b.typ(t.Elem(), schema.Field{})}
	if len(keys) == 0 {
		b.unsupported = b.unsupported || !isKey(t.Elem())
		return m
	}
	m.granularity = listMap
	for _, f := range schema.Fields(t.Elem()) {
		if !slices.Contains(keys, f.JSONName) {
			continue
		}
		b.unsupported = b.unsupported || !isKey(f.Type)
		key := listKey{structField: b.structField(t.Elem(), f), escaped: `\"` + f.JSONName + `\":`}
		if d := f.Default(); d != nil && reflect.TypeOf(d).ConvertibleTo(f.Type) {
			key.fallback = reflect.ValueOf(d).Convert(f.Type)
		}
		m.keys = append(m.keys, key)
	}
	slices.SortFunc(m.keys, func(a, b listKey) int { return cmp.Compare(a.JsonName, b.JsonName) })
	return m
}

// isKey reports whether values of a type can be keys of list elements.
func isKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Int, reflect.Int32, reflect.Int64:
		return true
	default:
		return false
	}
}
