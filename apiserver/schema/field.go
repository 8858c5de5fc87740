package schema

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	openapi "k8s.io/kube-openapi/pkg/common"
)

var (
	bytesType       = reflect.TypeFor[[]byte]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

// Description classifies Go types by their schemas.
type Description int

const (
	Composite Description = iota // a struct, map or list
	Scalar                       // one value, or any value as a whole
	Unknown                      // no schema, or one of several types
)

// Describe returns the Description of a type. The type must not be a pointer.
func Describe(t reflect.Type) Description {
	switch {
	case selfDescribed(t):
		if len(reflect.Zero(t).Interface().(selfTyped).OpenAPISchemaType()) != 1 {
			return Unknown
		}
		return Scalar
	case t == reflect.TypeFor[runtime.RawExtension](), t == bytesType:
		return Scalar
	case reflect.PointerTo(t).Implements(unmarshalerType), t.Kind() == reflect.Interface:
		return Unknown
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map, t.Kind() == reflect.Slice:
		return Composite
	default:
		return Scalar
	}
}

// MapType returns the x-kubernetes-map-type of a struct, or "" for the default.
func MapType(t reflect.Type) string { return exceptionsOf(modelName(t)).mapType }

// Field is a struct field in JSON. The fields of an inlined struct are fields of its parent.
type Field struct {
	reflect.StructField
	JSONName string

	omit bool // left out when empty
	text string
	exception
}

// Fields returns the fields of a struct in the order of their declarations.
func Fields(t reflect.Type) []Field {
	var fields []Field
	docs, except := texts(t), exceptionsOf(modelName(t)).fields
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			fields = append(fields, Fields(embedded)...)
		default:
			if name == "" {
				name = f.Name
			}
			omit := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
			fields = append(fields, Field{f, name, omit, docs[name], except[name]})
		}
	}
	return fields
}

// isRequired follows the convention of the Kubernetes API: a field is required if the encoder never omits it.
func (f Field) isRequired() bool {
	if f.required != nil {
		return *f.required
	}
	return !f.omit
}

// MapType returns the field's x-kubernetes-map-type, or "" for the default of its type.
func (f Field) MapType() string { return f.mapType }

// ListType returns the field's x-kubernetes-list-type and its keys. Without a declaration, both follow from the field's
// patch strategy.
func (f Field) ListType() (kind string, keys []string) {
	strategy, key := f.Tag.Get("patchStrategy"), f.Tag.Get("patchMergeKey")
	switch {
	case f.exception.listType != "":
		return f.exception.listType, f.listKeys
	case f.mapType != "":
		return f.mapType, nil
	case !strings.Contains(strategy, "merge"):
		return "atomic", nil
	case key == "":
		return "set", nil
	default:
		return "map", []string{key}
	}
}

// Default returns the JSON default of a field, or nil. A struct that the encoder never omits has a default without a
// declaration, and so has a value that is encoded even when it is empty.
func (f Field) Default() any {
	if f.fallback != nil {
		return f.fallback
	}
	if f.omit && f.Type.Kind() != reflect.Struct {
		return nil
	}
	return zeroOf(f.Type)
}

// zeroOf returns the JSON zero value of a type. It returns nil for null and for types with an UnmarshalJSON method.
func zeroOf(t reflect.Type) any {
	switch {
	case reflect.PointerTo(t).Implements(unmarshalerType):
		return nil
	case t.Kind() == reflect.Struct:
		return map[string]any{}
	}
	zero, _ := openapi.OpenAPIZeroValue(t.Kind().String())
	return zero
}
