package schema

import (
	"encoding/json"
	"reflect"
	"strings"

	openapi "k8s.io/kube-openapi/pkg/common"
)

var (
	bytesType       = reflect.TypeFor[[]byte]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

// field is a struct field as JSON shows it. Those of an inlined struct stand among their parent's.
type field struct {
	reflect.StructField
	path []int  // to the field, through what is inlined
	name string // in JSON
	omit bool   // left out when empty
	text string
	exception
}

func fieldsOf(t reflect.Type) []field {
	var fields []field
	docs, except := texts(t), exceptionsOf(modelName(t)).fields
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			for _, inner := range fieldsOf(embedded) {
				inner.path = append([]int{i}, inner.path...)
				fields = append(fields, inner)
			}
		default:
			if name == "" {
				name = f.Name
			}
			omit := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
			fields = append(fields, field{f, []int{i}, name, omit, docs[name], except[name]})
		}
	}
	return fields
}

// isRequired follows the convention of Kubernetes' types: what is never left out must be there.
func (f field) isRequired() bool {
	if f.required != nil {
		return *f.required
	}
	return !f.omit
}

// listType is how the elements of a list relate. What is not said is told by how the list is patched.
func (f field) listType() (kind string, keys []string) {
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

// zero is the default that the Go type implies: a struct that is always there, and a value that is
// written even when it is empty.
func (f field) zero() any {
	if f.fallback != nil {
		return f.fallback
	}
	if f.omit && f.Type.Kind() != reflect.Struct {
		return nil
	}
	return zeroOf(f.Type)
}

// zeroOf is what a value of the type is when nobody sets it, or nil if that is null or the business
// of the type itself, which reads its own JSON.
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
