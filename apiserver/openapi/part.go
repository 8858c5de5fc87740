package openapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"unique"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"flyball.dev/apiserver/resource"
	"flyball.dev/internal/packed"
)

// part is the part of a custom resource in the document of version 2. It stays encoded: there may be hundreds of custom
// resources with large schemas, and a change of one does not affect the others. Parts share equal elements, such as the definition of
// ObjectMeta.
type part struct {
	paths, definitions map[string]unique.Handle[packed.Text]
}

// newPart builds the part of a resource.
func newPart(r *resource.Resource) (p part, err error) {
	doc, err := r.OpenAPI.V2()
	if err != nil {
		return part{}, err
	}
	if p.paths, err = encodeEach(doc.Paths.Paths); err != nil {
		return part{}, err
	}
	p.definitions, err = encodeEach(doc.Definitions)
	return p, err
}

func encodeEach[V any](values map[string]V) (map[string]unique.Handle[packed.Text], error) {
	out := make(map[string]unique.Handle[packed.Text], len(values))
	for name, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		out[name] = unique.Make(packed.Pack(text))
	}
	return out, nil
}

// reserve returns the elements of the part that a document lacks. It adds empty elements with the same names to the
// document, so that documents merged later cannot take the names.
func (p part) reserve(doc *spec.Swagger) part {
	return part{paths: reserve(doc.Paths.Paths, p.paths), definitions: reserve(doc.Definitions, p.definitions)}
}

func reserve[V any](to map[string]V, from map[string]unique.Handle[packed.Text]) map[string]unique.Handle[packed.Text] {
	missing := map[string]unique.Handle[packed.Text]{}
	for name, text := range from {
		if _, ok := to[name]; !ok {
			var empty V
			to[name], missing[name] = empty, text
		}
	}
	return missing
}

// withParts returns the encoded document with the parts in their reserved places.
func withParts(text []byte, parts []part) (rope, error) {
	var w ropeWriter
	if len(parts) == 0 {
		w.Write(text)
		return w.finish(), nil
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	err := w.writeObject(slices.Sorted(maps.Keys(doc)), func(name string) error {
		switch name {
		case "paths":
			return w.writeWithParts(doc[name], parts, func(p part) map[string]unique.Handle[packed.Text] { return p.paths })
		case "definitions":
			return w.writeWithParts(doc[name], parts, func(p part) map[string]unique.Handle[packed.Text] { return p.definitions })
		}
		w.Write(doc[name])
		return nil
	})
	return w.finish(), err
}

// writeWithParts writes an object with the elements of parts in their reserved places.
func (w *ropeWriter) writeWithParts(object json.RawMessage, parts []part, of func(part) map[string]unique.Handle[packed.Text]) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(object, &values); err != nil {
		return err
	}
	reserved := map[string]unique.Handle[packed.Text]{}
	for _, p := range parts {
		maps.Copy(reserved, of(p))
	}
	return w.writeObject(slices.Sorted(maps.Keys(values)), func(name string) error {
		if p, ok := reserved[name]; ok {
			w.writeText(p.Value())
		} else {
			w.Write(values[name])
		}
		return nil
	})
}

// writeObject writes a JSON object; value writes the value of a name.
func (w *ropeWriter) writeObject(names []string, value func(name string) error) error {
	w.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			w.WriteByte(',')
		}
		quoted, err := encode(name)
		if err != nil {
			return err
		}
		w.Write(quoted)
		w.WriteByte(':')
		if err := value(name); err != nil {
			return err
		}
	}
	w.WriteByte('}')
	return nil
}

// encode encodes a value as the OpenAPI library does, without escapes for HTML.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
