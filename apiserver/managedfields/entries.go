package managedfields

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// entryList holds the managed fields entries of an object. For an unstructured object it also holds the JSON that the
// entries were decoded from.
type entryList struct {
	entries []metav1.ManagedFieldsEntry
	source  []any // nil, or one for each entry
}

// entriesOf returns the same entries as GetManagedFields, which is slow for unstructured objects.
func entriesOf(obj metav1.Object) entryList {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return entryList{entries: obj.GetManagedFields()}
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	source, ok := metadata["managedFields"].([]any)
	if !ok {
		return entryList{entries: obj.GetManagedFields()}
	}
	list := entryList{make([]metav1.ManagedFieldsEntry, len(source)), source}
	for i, item := range source {
		if !decodeEntry(item, &list.entries[i]) {
			return entryList{entries: obj.GetManagedFields()}
		}
	}
	return list
}

// decodeEntry decodes an entry. It returns false if encoding the entry would give another form.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.DecodeManagedFields
func decodeEntry(item any, entry *metav1.ManagedFieldsEntry) bool {
	m, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range m {
		if name == "fieldsV1" {
			fields, ok := value.(map[string]any)
			if !ok {
				return false
			}
			text, ok := appendFields(make([]byte, 0, 256), fields)
			if !ok {
				return false
			}
			entry.FieldsV1 = metav1.NewFieldsV1(string(text))
			continue
		}
		text, ok := value.(string)
		if !ok || text == "" {
			return false
		}
		switch name {
		case "manager":
			entry.Manager = text
		case "operation":
			entry.Operation = metav1.ManagedFieldsOperationType(text)
		case "apiVersion":
			entry.APIVersion = text
		case "fieldsType":
			entry.FieldsType = text
		case "subresource":
			entry.Subresource = text
		case "time":
			t, err := time.Parse(time.RFC3339, text)
			if err != nil || text != t.UTC().Format(time.RFC3339) {
				return false
			}
			entry.Time = &metav1.Time{Time: t.Local()}
		default:
			return false
		}
	}
	return true
}

// appendFields appends the encoding of a field set, in the same format as encoding/json. It returns false for values
// that are not objects.
func appendFields(out []byte, fields map[string]any) ([]byte, bool) {
	var few [16]string
	names := few[:0]
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	out = append(out, '{')
	for i, name := range names {
		inner, ok := fields[name].(map[string]any)
		if !ok || inner == nil {
			return nil, false
		}
		if i > 0 {
			out = append(out, ',')
		}
		if out, ok = appendName(out, name); !ok {
			return nil, false
		}
		out = append(out, ':')
		if out, ok = appendFields(out, inner); !ok {
			return nil, false
		}
	}
	return append(out, '}'), true
}

func appendName(out []byte, name string) ([]byte, bool) {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(name)
			return append(out, quoted...), err == nil
		}
	}
	out = append(out, '"')
	out = append(out, name...)
	return append(out, '"'), true
}

// set sets the entries of an object. Some entries may come from the list.
func (l entryList) set(obj metav1.Object, entries []metav1.ManagedFieldsEntry) {
	u, ok := obj.(*unstructured.Unstructured)
	metadata, isMap := map[string]any(nil), false
	if ok {
		metadata, isMap = u.Object["metadata"].(map[string]any)
	}
	if !isMap || entries == nil {
		obj.SetManagedFields(entries)
		return
	}
	items := make([]any, len(entries))
	for i := range entries {
		if items[i] = l.encode(&entries[i]); items[i] == nil {
			obj.SetManagedFields(entries)
			return
		}
	}
	metadata["managedFields"] = items
}

// encode returns an entry as JSON, or nil if it cannot be encoded. The result shares equal parts with the source of the
// list, which nobody changes in place.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.encodeManagerVersionedSet
func (l entryList) encode(entry *metav1.ManagedFieldsEntry) any {
	var fields map[string]any
	for i := range l.source {
		switch old := &l.entries[i]; {
		case *old == *entry:
			return l.source[i]
		case old.FieldsV1 != nil && old.FieldsV1 == entry.FieldsV1:
			fields, _ = l.source[i].(map[string]any)["fieldsV1"].(map[string]any)
		}
	}
	m := make(map[string]any, 7)
	put := func(name, text string) {
		if text != "" {
			m[name] = text
		}
	}
	put("manager", entry.Manager)
	put("operation", string(entry.Operation))
	put("apiVersion", entry.APIVersion)
	put("fieldsType", entry.FieldsType)
	put("subresource", entry.Subresource)
	if entry.Time != nil {
		if entry.Time.IsZero() {
			return nil
		}
		m["time"] = entry.Time.UTC().Format(time.RFC3339)
	}
	if entry.FieldsV1 != nil {
		if fields == nil {
			err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(entry.FieldsV1.GetRawString()), &fields)
			if err != nil || fields == nil {
				return nil
			}
		}
		m["fieldsV1"] = fields
	}
	return m
}
