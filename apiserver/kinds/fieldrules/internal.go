package fieldrules

import (
	"encoding/json"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Internal returns the value that an error of kube-apiserver shows for a struct of an API. It
// validates internal types, which have no tags, so that their fields have Go's names in JSON, also
// those that are empty.
func Internal(value any) any {
	return internal(reflect.ValueOf(value))
}

// internal returns the value of v without tags, nil for nil.
func internal(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return internal(v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = internal(v.Index(i))
		}
		return list
	case reflect.Struct:
		if strings.HasPrefix(v.Type().PkgPath(), "k8s.io/apimachinery/") {
			return v.Interface() // it is the same in every version
		}
		if _, ok := v.Interface().(json.Marshaler); ok || v.CanAddr() && v.Addr().Type().Implements(marshaler) {
			return v.Interface()
		}
		fields, values := untagged(v)
		copied := reflect.New(reflect.StructOf(fields)).Elem()
		for i, value := range values {
			if value.IsValid() {
				copied.Field(i).Set(value)
			}
		}
		return copied.Interface()
	}
	return v.Interface()
}

// untagged returns the fields of a struct without tags, with the fields of embedded structs in their place,
// and their values. Metadata keeps its tags, which it has in every version.
func untagged(v reflect.Value) ([]reflect.StructField, []reflect.Value) {
	var fields []reflect.StructField
	var values []reflect.Value
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		switch {
		case f.Anonymous && (f.Type == reflect.TypeFor[metav1.ObjectMeta]() || f.Type == reflect.TypeFor[metav1.TypeMeta]()):
			for j := range f.Type.NumField() {
				fields, values = append(fields, f.Type.Field(j)), append(values, value.Field(j))
			}
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			more, with := untagged(value)
			fields, values = append(fields, more...), append(values, with...)
		default:
			fields = append(fields, reflect.StructField{Name: f.Name, Type: reflect.TypeFor[any]()})
			values = append(values, reflect.ValueOf(internal(value)))
		}
	}
	return fields, values
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// InternalError returns the message of an error of the JSON decoder, with the Go types of the core group as kube-apiserver
// calls them, which decodes to its internal types.
func InternalError(err error) string { return strings.ReplaceAll(err.Error(), "v1.", "core.") }
