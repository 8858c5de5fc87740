package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
)

// createPatch returns the operations that change one JSON document into another: the operations of
// [jsonpatch.CreatePatch], with integers beyond 2^53 as they are instead of rounded. Most of an
// object is usually the same in both documents; comparing their texts first saves decoding that
// part.
func createPatch(original, current []byte) ([]jsonpatch.Operation, error) {
	if !json.Valid(original) || !json.Valid(current) {
		return jsonpatch.CreatePatch(original, current) // for its error
	}
	p := patcher{ops: []jsonpatch.Operation{}}
	if err := p.compare("", bytes.TrimSpace(original), bytes.TrimSpace(current), 0); err != nil {
		return jsonpatch.CreatePatch(original, current) // decodes what compare does not support
	}
	return p.ops, nil
}

// maxPatchDepth bounds the work for nested documents: compare scans a text once for each level that
// it is nested.
const maxPatchDepth = 64

var errTooDeep = errors.New("nested too deeply")

// patcher collects the operations of a patch.
type patcher struct{ ops []jsonpatch.Operation }

// set appends an operation, add or replace, with the value that text encodes.
func (p *patcher) set(operation, path string, text []byte) error {
	value, err := decodeValue(text)
	if err != nil {
		return err
	}
	p.ops = append(p.ops, jsonpatch.Operation{Operation: operation, Path: path, Value: value})
	return nil
}

// remove appends the operation that removes the value at path.
func (p *patcher) remove(path string) {
	p.ops = append(p.ops, jsonpatch.Operation{Operation: "remove", Path: path})
}

// compare adds the operations that change a into b. Both are valid JSON without space around it.
func (p *patcher) compare(path string, a, b []byte, depth int) error {
	switch {
	case bytes.Equal(a, b):
		return nil
	case depth > maxPatchDepth:
		return errTooDeep
	case a[0] == '{' && b[0] == '{':
		return p.compareObjects(path, a, b, depth)
	case a[0] == '[' && b[0] == '[':
		return p.compareArrays(path, a, b, depth)
	case a[0] == b[0] && a[0] == '"' || isNumber(a) && isNumber(b):
		// The texts of equal values can be different.
		from, err := decodeValue(a)
		if err != nil {
			return err
		}
		if to, err := decodeValue(b); err != nil || from == to {
			return err
		}
	}
	return p.set("replace", path, b)
}

func isNumber(text []byte) bool { return text[0] == '-' || '0' <= text[0] && text[0] <= '9' }

// compareObjects adds the operations that turn one JSON object into another.
func (p *patcher) compareObjects(path string, a, b []byte, depth int) error {
	from, fromKeys, err := members(a)
	if err != nil {
		return err
	}
	to, toKeys, err := members(b)
	if err != nil {
		return err
	}
	for _, key := range toKeys {
		below := path + "/" + pointerEscaper.Replace(key)
		if old, ok := from[key]; ok {
			err = p.compare(below, old, to[key], depth+1)
		} else {
			err = p.set("add", below, to[key])
		}
		if err != nil {
			return err
		}
	}
	for _, key := range fromKeys {
		if _, ok := to[key]; !ok {
			p.remove(path + "/" + pointerEscaper.Replace(key))
		}
	}
	return nil
}

// pointerEscaper escapes the parts of a JSON pointer (RFC 6901).
var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// compareArrays adds the operations that turn one JSON array into another, position by position.
// Elements are removed from the end, so that the indexes of the others do not change.
func (p *patcher) compareArrays(path string, a, b []byte, depth int) error {
	from, to := elements(a), elements(b)
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	common := min(len(from), len(to))
	for i := len(from) - 1; i >= common; i-- {
		p.remove(at(i))
	}
	for i := common; i < len(to); i++ {
		if err := p.set("add", at(i), to[i]); err != nil {
			return err
		}
	}
	for i := range common {
		if err := p.compare(at(i), from[i], to[i], depth+1); err != nil {
			return err
		}
	}
	return nil
}

// decodeValue decodes a value. Numbers are float64, or json.Number if that would change an integer.
func decodeValue(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return convertNumbers(value)
}

// convertNumbers replaces the numbers in value by float64 where that keeps them exact.
func convertNumbers(value any) (_ any, err error) {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			if v[key], err = convertNumbers(v[key]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = convertNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case json.Number:
		f, err := v.Float64()
		if err == nil && !strings.ContainsAny(v.String(), ".eE") && strconv.FormatFloat(f, 'f', -1, 64) != v.String() {
			return v, nil
		}
		return f, err
	}
	return value, nil
}
