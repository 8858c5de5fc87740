package openapi

import (
	"bytes"
	"encoding/json"
	"maps"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"flyball.dev/apiserver/resource"
)

// part is the part of a custom resource in the document of version 2. It stays encoded: there may be hundreds of custom
// resources with large schemas, and a change of one does not affect the others.
type part struct {
	paths, definitions map[string]json.RawMessage
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

func encodeEach[V any](values map[string]V) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(values))
	for name, value := range values {
		var err error
		if out[name], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reserve returns the elements of the part that a document lacks. It adds empty elements with the same names to the
// document, so that documents merged later cannot take the names.
func (p part) reserve(doc *spec.Swagger) part {
	return part{paths: reserve(doc.Paths.Paths, p.paths), definitions: reserve(doc.Definitions, p.definitions)}
}

func reserve[V any](to map[string]V, from map[string]json.RawMessage) map[string]json.RawMessage {
	missing := map[string]json.RawMessage{}
	for name, text := range from {
		if _, ok := to[name]; !ok {
			var empty V
			to[name], missing[name] = empty, text
		}
	}
	return missing
}

// withParts returns the encoded document with the parts in their reserved places.
func withParts(text []byte, parts []part) ([]byte, error) {
	if len(parts) == 0 {
		return text, nil
	}
	var doc map[string]json.RawMessage
	var paths, definitions map[string]json.RawMessage
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(doc["paths"], &paths); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(doc["definitions"], &definitions); err != nil {
		return nil, err
	}
	for _, p := range parts {
		maps.Copy(paths, p.paths)
		maps.Copy(definitions, p.definitions)
	}
	var err error
	if doc["paths"], err = encode(paths); err != nil {
		return nil, err
	}
	if doc["definitions"], err = encode(definitions); err != nil {
		return nil, err
	}
	return encode(doc)
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
