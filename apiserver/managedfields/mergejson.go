package managedfields

import (
	"maps"
	"slices"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// jsonMerger merges configurations into JSON objects by a schema of structured-merge-diff. The result is the same as
// merging typed values, but it shares all fields that the configuration lacks with the live object. jsonMerger does not
// support associative lists, nulls and empty values.
//
//upstream:sigs.k8s.io/structured-merge-diff/v6/typed.mergingWalker
type jsonMerger struct{ *smd.Schema }

// mergeObject merges a configuration into a live object and returns the result. The result has its own metadata map,
// because every configuration sets the name.
func (m jsonMerger) mergeObject(of smd.TypeRef, live, config map[string]any) (map[string]any, bool) {
	metadata, _ := live["metadata"].(map[string]any)
	checked := maps.Clone(live)
	checked["metadata"] = withoutKey(metadata, "managedFields") // decoded elsewhere
	if !m.conforms(of, checked) {
		return nil, false
	}
	merged, ok := m.merge(of, live, config)
	content, isMap := merged.(map[string]any)
	return content, ok && isMap
}

func withoutKey(m map[string]any, key string) map[string]any {
	m = maps.Clone(m)
	delete(m, key)
	return m
}

// merge merges the value of a configuration into a live value, which may be nil, and returns the result.
func (m jsonMerger) merge(of smd.TypeRef, live, config any) (merged any, ok bool) {
	atom, ok := m.Resolve(of)
	if !ok {
		return nil, false
	}
	switch config := config.(type) {
	case map[string]any:
		before, isMap := live.(map[string]any)
		switch {
		case atom.Map == nil || len(config) == 0 || live != nil && !isMap:
			return nil, false
		case atom.Map.ElementRelationship == smd.Atomic:
			return config, true
		}
		return m.mergeFields(atom.Map, before, config)
	case []any:
		_, isList := live.([]any)
		return config, atom.List != nil && atom.List.ElementRelationship == smd.Atomic && len(config) > 0 && (live == nil || isList)
	case nil:
		return nil, false
	}
	return config, atom.Scalar != nil && (live == nil || isJSONScalar(live))
}

func (m jsonMerger) mergeFields(of *smd.Map, live, config map[string]any) (any, bool) {
	out := make(map[string]any, len(live)+len(config))
	maps.Copy(out, live)
	for name, value := range config {
		merged, ok := m.merge(fieldType(of, name), out[name], value)
		if !ok {
			return nil, false
		}
		out[name] = merged
	}
	return out, true
}

// fieldType returns the type of a field or of a map's values. It is zero for an unknown field.
func fieldType(of *smd.Map, name string) smd.TypeRef {
	if field, ok := of.FindField(name); ok {
		return field.Type
	}
	return of.ElementType
}

// conforms reports whether a live value conforms to the schema; otherwise nothing can be merged into it. It returns
// false for some conforming values: values with nulls, and long associative lists.
//
//upstream:sigs.k8s.io/structured-merge-diff/v6/typed.validatingObjectWalker
func (m jsonMerger) conforms(of smd.TypeRef, value any) bool {
	atom, ok := m.Resolve(of)
	if !ok {
		return false
	}
	switch value := value.(type) {
	case map[string]any:
		if atom.Map == nil {
			return false
		}
		for name, item := range value {
			if !m.conforms(fieldType(atom.Map, name), item) {
				return false
			}
		}
		return true
	case []any:
		if atom.List == nil || atom.List.ElementRelationship != smd.Atomic && !distinct(atom.List.Keys, value) {
			return false
		}
		return !slices.ContainsFunc(value, func(item any) bool { return !m.conforms(atom.List.ElementType, item) })
	}
	return atom.Scalar != nil && isOfType(*atom.Scalar, value)
}

// maxDistinct is the maximum length of lists that distinct compares pairwise.
const maxDistinct = 16

// distinct reports whether all elements of a list have keys and the keys differ. In a set, the elements are their own
// keys.
func distinct(keys []string, list []any) bool {
	if len(list) > maxDistinct {
		return false
	}
	same := func(a, b any) bool {
		if len(keys) == 0 {
			return a == b
		}
		return !slices.ContainsFunc(keys, func(key string) bool { return a.(map[string]any)[key] != b.(map[string]any)[key] })
	}
	for i, item := range list {
		fields, isMap := item.(map[string]any)
		if isMap != (len(keys) > 0) || !isMap && !isKeyValue(item) ||
			slices.ContainsFunc(keys, func(key string) bool { return !isKeyValue(fields[key]) }) ||
			slices.ContainsFunc(list[:i], func(other any) bool { return same(item, other) }) {
			return false
		}
	}
	return true
}

// isKeyValue reports whether a value is a scalar that equals only values of its own type. A float64 can equal an int64.
func isKeyValue(value any) bool {
	_, isFloat := value.(float64)
	return !isFloat && isJSONScalar(value)
}

func isJSONScalar(value any) bool { return isOfType(smd.Untyped, value) }

func isOfType(t smd.Scalar, value any) bool {
	switch value.(type) {
	case int64, float64:
		return t == smd.Numeric || t == smd.Untyped
	case string:
		return t == smd.String || t == smd.Untyped
	case bool:
		return t == smd.Boolean || t == smd.Untyped
	}
	return false
}
