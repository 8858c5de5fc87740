package validation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// document changes a value in a string that is a JSON document, such as an annotation with a list of metrics. It returns false
// for other strings, and now and then for a document, which is replaced as a whole then.
func (m *mutator) document(text string) (string, bool) {
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") || m.chance(15) {
		return "", false
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return "", false
	}
	changed, err := json.Marshal(m.json(v))
	return string(changed), err == nil
}

// json returns a JSON value with a change in one place.
func (m *mutator) json(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return v
		}
		key := pick(m, slices.Sorted(maps.Keys(v)))
		if m.chance(10) {
			delete(v, key)
		} else {
			v[key] = m.json(v[key])
		}
		return v
	case []any:
		if len(v) == 0 {
			return v
		}
		switch i := m.IntN(len(v)); {
		case m.chance(5):
			return slices.Delete(v, i, i+1)
		case m.chance(5):
			return append(v, v[i])
		default:
			v[i] = m.json(v[i])
			return v
		}
	case float64:
		return pick(m, integers)
	case bool:
		return !v
	case string:
		return pick(m, texts)
	default:
		return v
	}
}
