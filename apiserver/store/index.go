package store

import (
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/internal/protobuf"
	"flyball.dev/storage"
)

// indexedField is a field of an object, a string below nested structs. It refers to nothing of a [Store], because the
// backend may outlive the store.
type indexedField struct {
	tags  []uint64 // of the field and the structs around it, in protobuf
	index []int    // for reflect.Value.FieldByIndex

	start     []byte // of stored objects in protobuf, or nil
	codec     runtime.Codec
	newObject func() runtime.Object
}

// addIndex makes the backend index objects by a field, such as spec.nodeName. It does nothing if the backend has no
// indexes or the objects are encrypted.
func (s *Store) addIndex(field string) {
	indexer, ok := s.backend.(storage.Indexer)
	if !ok || s.transformer != nil {
		return
	}
	f := indexedField{start: s.start(), codec: s.codec, newObject: s.newObject}
	if !f.find(reflect.TypeOf(s.newObject()), strings.Split(field, ".")) {
		return
	}
	if indexer.AddIndex(storage.Index{Name: s.indexName(field), Path: s.prefix, Of: f.of}) == nil {
		s.indexed = append(s.indexed, field)
	}
}

func (s *Store) indexName(field string) string { return s.prefix + field }

// find finds the field by the names in JSON on the path to it.
func (f *indexedField) find(t reflect.Type, path []string) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(path) == 0 {
		return t.Kind() == reflect.String
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		parts := strings.Split(t.Field(i).Tag.Get("protobuf"), ",")
		if name != path[0] || len(parts) < 2 || parts[0] != "bytes" || t.Field(i).Type.Kind() == reflect.Pointer {
			continue
		}
		number, err := strconv.ParseUint(parts[1], 10, 32)
		if err != nil {
			return false
		}
		f.tags, f.index = append(f.tags, number<<3|2), append(f.index, i)
		return f.find(t.Field(i).Type, path[1:])
	}
	return false
}

// of returns the field of a stored object, or "" if the object cannot be decoded.
func (f *indexedField) of(r *storage.Record) string {
	value := r.Value()
	if message, ok := encodedObject(f.start, value); ok {
		return f.in(message)
	}
	obj, _, err := f.codec.Decode(value, nil, f.newObject())
	if err != nil {
		return ""
	}
	return reflect.ValueOf(obj).Elem().FieldByIndex(f.index).String()
}

// in returns the field of an encoded object.
func (f *indexedField) in(message []byte) string {
	for _, tag := range f.tags {
		found, ok := findField(message, tag)
		if !ok {
			return ""
		}
		message = found
	}
	return string(message)
}

// findField returns the content of a field.
func findField(message []byte, tag uint64) ([]byte, bool) {
	for len(message) > 0 {
		field, rest, ok := protobuf.Next(message)
		if !ok {
			return nil, false
		}
		if field.Tag == tag {
			return field.Content, true
		}
		message = rest
	}
	return nil, false
}

// useIndex makes a query use an index, if the predicate requires a value of an indexed field. It returns what the
// predicate requires besides.
func (s *Store) useIndex(q *storage.Query, p apistorage.SelectionPredicate) apistorage.SelectionPredicate {
	if p.Field == nil {
		return p
	}
	for _, field := range s.indexed {
		value, ok := p.Field.RequiresExactMatch(field)
		if !ok || value == "" || requirements(p.Field, field) != 1 {
			continue
		}
		rest, err := p.Field.Transform(func(name, value string) (string, string, error) {
			if name == field {
				return "", "", nil // drops it
			}
			return name, value, nil
		})
		if err == nil {
			q.Index, q.Value, p.Field = s.indexName(field), value, rest
			return p
		}
	}
	return p
}

// requirements returns how many requirements of a selector are about a field.
func requirements(s fields.Selector, field string) (n int) {
	for _, r := range s.Requirements() {
		if r.Field == field {
			n++
		}
	}
	return n
}
