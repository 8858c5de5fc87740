package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// The functions in this file split JSON into the texts of its values without decoding them. Their
// argument must be valid JSON: they do not check it, and may panic on any other.

var errDuplicateKey = errors.New("duplicate key")

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
