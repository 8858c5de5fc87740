package endpoints

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// mergeJSON applies a merge patch (RFC 7386) to a JSON object and returns the result. The result shares unchanged
// values with the object and nothing with the patch. It has its own metadata map, so that the caller can set metadata
// fields.
//
//upstream:gopkg.in/evanphx/json-patch.v4.mergeDocs
func mergeJSON(object, patch map[string]any) map[string]any {
	merged := mergeMembers(object, patch)
	if metadata, ok := merged["metadata"].(map[string]any); ok && patch["metadata"] == nil {
		merged["metadata"] = maps.Clone(metadata)
	}
	return merged
}

func mergeMembers(object, patch map[string]any) map[string]any {
	merged := make(map[string]any, len(object)+1)
	maps.Copy(merged, object)
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(merged, key)
		case map[string]any:
			inner, _ := merged[key].(map[string]any)
			merged[key] = mergeMembers(inner, value)
		default:
			merged[key] = runtime.DeepCopyJSONValue(value)
		}
	}
	return merged
}

// mergeValue applies a merge patch to the Go value of an object. The result is the same as patching the JSON of the
// object and decoding it. mergeValue returns false if the patch has unknown fields, values of other types, or numbers
// that are not integers; the object may then be partly changed.
func mergeValue(obj runtime.Object, patch map[string]any) bool {
	return mergeStruct(reflect.ValueOf(obj).Elem(), patch)
}

func mergeStruct(v reflect.Value, patch map[string]any) bool {
	fields := value.TypeReflectEntryOf(v.Type()).Fields()
	for name, value := range patch {
		field, ok := fields[name]
		if !ok {
			return false
		}
		x := field.GetFrom(v)
		if !x.CanSet() || !mergeInto(x, value) {
			return false
		}
	}
	return true
}

// mergeInto applies one value of a patch to a field, an element, or the target of a pointer.
func mergeInto(x reflect.Value, patch any) bool {
	if patch == nil {
		x.SetZero()
		return true
	}
	members, isObject := patch.(map[string]any)
	if !isObject {
		return set(x, patch)
	}
	t := x.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return false
	}
	if x.Kind() == reflect.Pointer {
		if x.IsNil() {
			x.Set(reflect.New(t))
		}
		x = x.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		return mergeStruct(x, members)
	case reflect.Map:
		return t.Key().Kind() == reflect.String && mergeMap(x, members)
	default:
		return false
	}
}

func mergeMap(m reflect.Value, patch map[string]any) bool {
	t := m.Type()
	if m.IsNil() {
		m.Set(reflect.MakeMap(t))
	}
	for name, value := range patch {
		key := reflect.ValueOf(name).Convert(t.Key())
		if value == nil {
			m.SetMapIndex(key, reflect.Value{})
			continue
		}
		element := reflect.New(t.Elem()).Elem()
		if old := m.MapIndex(key); old.IsValid() {
			element.Set(old)
		}
		if !mergeInto(element, value) {
			return false
		}
		m.SetMapIndex(key, element)
	}
	return true
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// set replaces x by a value that is not an object.
func set(x reflect.Value, v any) bool {
	if text, ok := v.(string); ok && x.Kind() == reflect.String && !x.Addr().Type().Implements(unmarshaler) {
		x.SetString(text)
		return true
	}
	if !isExact(v) {
		return false
	}
	data, err := json.Marshal(v)
	if err != nil {
		return false
	}
	decoded := reflect.New(x.Type())
	strict, err := kjson.UnmarshalStrict(data, decoded.Interface())
	if err != nil || len(strict) > 0 {
		return false
	}
	x.Set(decoded.Elem())
	return true
}

// isExact reports whether every decoder preserves a JSON value: its only numbers are integers that a float64 can hold.
func isExact(v any) bool {
	switch v := v.(type) {
	case float64:
		return false
	case int64:
		return -1<<53 <= v && v <= 1<<53
	case []any:
		return !slices.ContainsFunc(v, func(v any) bool { return !isExact(v) })
	case map[string]any:
		for _, v := range v {
			if !isExact(v) {
				return false
			}
		}
	}
	return true
}

// hasNullInList reports whether any list within a JSON value contains a null.
func hasNullInList(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, hasNull)
	case map[string]any:
		for _, v := range v {
			if hasNullInList(v) {
				return true
			}
		}
	}
	return false
}

// hasNull reports whether a JSON value is or contains a null.
func hasNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return slices.ContainsFunc(v, hasNull)
	case map[string]any:
		for _, v := range v {
			if hasNull(v) {
				return true
			}
		}
	}
	return false
}

// isMergePatch reports whether a strategic merge patch has the same effect as a merge patch. Such a patch has no
// directives, no lists, and no field that is replaced as a whole, such as a selector.
func isMergePatch(patch map[string]any) bool {
	for name, value := range patch {
		if strings.HasPrefix(name, "$") || name == "selector" {
			return false
		}
		switch value := value.(type) {
		case []any:
			return false
		case map[string]any:
			if !isMergePatch(value) {
				return false
			}
		}
	}
	return true
}
