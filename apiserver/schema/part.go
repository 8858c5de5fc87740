package schema

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// part is what a walk over an object must know of a Go type in one place: whether it has owners as a
// whole, or how its parts are told from each other.
type part struct {
	kind    partKind
	fields  []*structField // of a struct, ordered by name
	element *part          // of a map or list
	keys    []listKey      // of a keyed list, ordered by name
}

type partKind int

const (
	partLeaf partKind = iota
	partStruct
	partMap
	partSet
	partKeyed
)

type structField struct {
	name string
	key  string // as FieldsV1 writes it, with the colon
	part *part

	path           []int
	omitEmpty      bool
	omitZero       bool
	isZero         bool // the type has its own idea of zero
	hiddenWhenZero bool
}

type listKey struct {
	*structField
	escaped  string        // as it stands in a key of FieldsV1, with the colon
	fallback reflect.Value // invalid without a default
}

func (f *structField) value(v reflect.Value) reflect.Value {
	if len(f.path) == 1 {
		return v.Field(f.path[0])
	}
	return v.FieldByIndex(f.path)
}

// omitted says whether JSON leaves the field out.
func (f *structField) omitted(v reflect.Value) bool {
	if f.omitEmpty {
		switch v.Kind() {
		case reflect.Slice, reflect.Map, reflect.String:
			if v.Len() == 0 {
				return true
			}
		case reflect.Struct:
		default:
			if v.IsZero() {
				return true
			}
		}
	}
	switch {
	case !f.omitZero:
		return false
	case !f.isZero:
		return v.IsZero()
	case !v.CanAddr(): // within a map
		boxed := reflect.New(v.Type()).Elem()
		boxed.Set(v)
		v = boxed
	}
	return v.Addr().Interface().(zeroer).IsZero()
}

type zeroer interface{ IsZero() bool }

var parts sync.Map // reflect.Type → func() *part

// partOf gives what must be known of a kind's Go type, or nil if it holds something without a schema.
func partOf(t reflect.Type) *part {
	build, ok := parts.Load(t)
	if !ok {
		build, _ = parts.LoadOrStore(t, sync.OnceValue(func() *part {
			c := compiler{}
			p := c.part(t, "", "", nil)
			if c.unknown || p.kind != partStruct {
				return nil
			}
			return p
		}))
	}
	return build.(func() *part)()
}

// compiler makes the parts of a type and of all that it holds, once each.
type compiler struct {
	structs map[reflect.Type]*part
	unknown bool // there is something without a schema
}

// part is the type where its list or map type, if it is a list or a map, is the given one.
func (c *compiler) part(t reflect.Type, mapType, listType string, keys []string) *part {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case selfDescribed(t):
		c.unknown = c.unknown || len(reflect.Zero(t).Interface().(selfTyped).OpenAPISchemaType()) != 1
		return &part{}
	case t == reflect.TypeFor[runtime.RawExtension](), t == bytesType:
		return &part{}
	case reflect.PointerTo(t).Implements(unmarshalerType), t.Kind() == reflect.Interface:
		c.unknown = true
		return &part{}
	case t.Kind() == reflect.Struct:
		if cmp.Or(mapType, exceptionsOf(modelName(t)).mapType) == "atomic" {
			return &part{}
		}
		return c.structPart(t)
	case t.Kind() == reflect.Map:
		if mapType == "atomic" {
			return &part{}
		}
		return &part{kind: partMap, element: c.part(t.Elem(), "", "atomic", nil)}
	case t.Kind() == reflect.Slice && listType != "atomic":
		return c.listPart(t, keys)
	default:
		return &part{}
	}
}

func (c *compiler) structPart(t reflect.Type) *part {
	if p, ok := c.structs[t]; ok {
		return p
	}
	if c.structs == nil {
		c.structs = map[reflect.Type]*part{}
	}
	p := &part{kind: partStruct}
	c.structs[t] = p
	for _, f := range fieldsOf(t) {
		p.fields = append(p.fields, c.structField(t, f))
	}
	slices.SortFunc(p.fields, func(a, b *structField) int { return cmp.Compare(a.name, b.name) })
	return p
}

func (c *compiler) structField(parent reflect.Type, f field) *structField {
	listType, keys := f.listType()
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	s := &structField{
		name: f.name, key: `"f:` + f.name + `":`, path: f.path,
		part:      c.part(f.Type, f.mapType, listType, keys),
		omitEmpty: strings.Contains(options, "omitempty"),
		omitZero:  strings.Contains(options, "omitzero"),
		isZero:    f.Type.Kind() != reflect.Pointer && reflect.PointerTo(f.Type).Implements(reflect.TypeFor[zeroer]()),
	}
	s.hiddenWhenZero = s.omitted(s.value(reflect.New(parent).Elem()))
	return s
}

func (c *compiler) listPart(t reflect.Type, keys []string) *part {
	p := &part{kind: partSet, element: c.part(t.Elem(), "", "atomic", nil)}
	if len(keys) == 0 {
		c.unknown = c.unknown || !isKey(t.Elem())
		return p
	}
	p.kind = partKeyed
	for _, f := range fieldsOf(t.Elem()) {
		if !slices.Contains(keys, f.name) {
			continue
		}
		c.unknown = c.unknown || !isKey(f.Type)
		key := listKey{structField: c.structField(t.Elem(), f), escaped: `\"` + f.name + `\":`}
		if zero := f.zero(); zero != nil && reflect.TypeOf(zero).ConvertibleTo(f.Type) {
			key.fallback = reflect.ValueOf(zero).Convert(f.Type)
		}
		p.keys = append(p.keys, key)
	}
	slices.SortFunc(p.keys, func(a, b listKey) int { return cmp.Compare(a.name, b.name) })
	return p
}

// isKey says whether values of a type can tell elements of a list apart.
func isKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Int, reflect.Int32, reflect.Int64:
		return true
	default:
		return false
	}
}
