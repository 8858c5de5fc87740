package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"gomodules.xyz/jsonpatch/v2"
)

// createPatch returns the operations that change one JSON document into another: those of
// [jsonpatch.CreatePatch], with integers beyond 2^53 as they are instead of rounded. Most of an
// object is usually the same in both documents; comparing their texts first saves decoding that
// part.
func createPatch(original, current []byte) ([]jsonpatch.Operation, error) {
	if !json.Valid(original) || !json.Valid(current) {
		return jsonpatch.CreatePatch(original, current) // for its error
	}
	p := patcher{ops: []jsonpatch.Operation{}}
	if err := p.compare("", bytes.TrimSpace(original), bytes.TrimSpace(current), 0); err != nil {
		return jsonpatch.CreatePatch(original, current)
	}
	return p.ops, nil
}

// maxPatchDepth bounds how often the innermost text is scanned.
const maxPatchDepth = 64

var (
	errTooDeep      = errors.New("nested too deeply")
	errDuplicateKey = errors.New("duplicate key")
)

// patcher collects the operations of a patch.
type patcher struct{ ops []jsonpatch.Operation }

func (p *patcher) add(operation, path string, text []byte) error {
	op := jsonpatch.Operation{Operation: operation, Path: path}
	if text != nil {
		value, err := decodeValue(text)
		if err != nil {
			return err
		}
		op.Value = value
	}
	p.ops = append(p.ops, op)
	return nil
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
	return p.add("replace", path, b)
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
			err = p.add("add", below, to[key])
		}
		if err != nil {
			return err
		}
	}
	for _, key := range fromKeys {
		if _, ok := to[key]; !ok {
			_ = p.add("remove", path+"/"+pointerEscaper.Replace(key), nil)
		}
	}
	return nil
}

// pointerEscaper escapes the parts of a JSON pointer (RFC 6901).
var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// compareArrays compares arrays by position. Elements are removed from the end.
func (p *patcher) compareArrays(path string, a, b []byte, depth int) error {
	from, to := elements(a), elements(b)
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	common := min(len(from), len(to))
	for i := len(from) - 1; i >= common; i-- {
		_ = p.add("remove", at(i), nil)
	}
	for i := common; i < len(to); i++ {
		if err := p.add("add", at(i), to[i]); err != nil {
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
	return withFloats(value)
}

func withFloats(value any) (_ any, err error) {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			if v[key], err = withFloats(v[key]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = withFloats(v[i]); err != nil {
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

// members returns the members of a JSON object by key, and the keys in order.
func members(object []byte) (map[string][]byte, []string, error) {
	all := map[string][]byte{}
	var keys []string
	rest := skipSpace(object[1:])
	for rest[0] != '}' {
		var quoted, value []byte
		quoted, rest = nextValue(rest)
		value, rest = nextValue(skipSpace(rest[1:])) // after the colon
		key := string(quoted[1 : len(quoted)-1])
		if strings.Contains(key, `\`) || !utf8.ValidString(key) {
			if err := json.Unmarshal(quoted, &key); err != nil {
				return nil, nil, err
			}
		}
		if _, exists := all[key]; exists {
			return nil, nil, errDuplicateKey
		}
		all[key] = value
		keys = append(keys, key)
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return all, keys, nil
}

// elements returns the elements of a JSON array.
func elements(array []byte) [][]byte {
	var all [][]byte
	rest := skipSpace(array[1:])
	for rest[0] != ']' {
		var value []byte
		value, rest = nextValue(rest)
		all = append(all, value)
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return all
}

// nextValue returns the JSON value that text begins with, and what comes after it and the space
// that follows it. The text must be valid, and not end with the value.
func nextValue(text []byte) (value, rest []byte) {
	depth, i := 0, 0
	for done := false; !done; {
		switch text[i] {
		case '"':
			i += stringLength(text[i:])
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++ // inside of an object or array
		default:
			i += bytes.IndexAny(text[i:], ",]} \t\n\r")
		}
		done = depth == 0
	}
	return text[:i], skipSpace(text[i:])
}

// stringLength returns the length of the JSON string that text begins with, quotes included.
func stringLength(text []byte) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func skipSpace(text []byte) []byte { return bytes.TrimLeft(text, " \t\n\r") }
