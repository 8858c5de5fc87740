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

// mergeJSON returns a JSON object with a merge patch (RFC 7386) applied. It shares with the object what
// the patch does not change, and nothing with the patch. The metadata are its own, so that their fields
// can be set.
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

// mergeValue applies a merge patch to the Go value of an object, as if the patch were applied to its
// JSON and that decoded. It returns false, and may have changed the object, if the patch has fields
// that the type does not have, values that do not fit, or numbers that are not integers.
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

// mergeInto applies one value of a patch to a field, an element, or what it refers to.
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

// isExact reports whether a JSON value is encoded as it was before it was decoded, whatever decodes
// it: it has no numbers but integers that a float64 can hold.
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

// hasNullInList reports whether a list in a JSON value has a null somewhere.
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

// hasNull reports whether a JSON value is null or has a null somewhere.
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

// isMergePatch reports whether a strategic merge patch means what it means as a merge patch: it has
// neither directives nor lists, nor a field that is replaced as a whole, which selectors can be.
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
