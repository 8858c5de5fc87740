package record

import (
	"bytes"
	"encoding/json"
	"errors"
)

// The functions of this file find values in the JSON of an API server without decoding the rest of it. They check no more of the
// syntax than they need.

// errEnd means that JSON ends too early; more of it may follow.
var errEnd = errors.New("unexpected end of JSON")

// errSyntax means that something is not JSON.
var errSyntax = errors.New("invalid JSON")

// skipSpace returns the position of the first byte that is no white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the position after the string that begins at i.
func skipString(b []byte, i int) (int, error) {
	for i++; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return 0, errEnd
		}
		i += n
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1, nil
		}
	}
}

// skipValue returns the position after the value that begins at i.
func skipValue(b []byte, i int) (int, error) {
	if i >= len(b) {
		return 0, errEnd
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	start := i
	for i < len(b) && bytes.IndexByte([]byte(",]} \n\t\r"), b[i]) < 0 {
		i++
	}
	if i == start {
		return 0, errSyntax
	}
	return i, nil
}

// skipNested returns the position after the object or array that begins at i.
func skipNested(b []byte, i int) (int, error) {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			end, err := skipString(b, i)
			if err != nil {
				return 0, err
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
		i++
	}
	return 0, errEnd
}

// members calls f with the members of a JSON object, until f returns false. A name is as it is written, without its
// quotation marks.
func members(b []byte, f func(name string, value []byte) bool) error {
	i := skipSpace(b, 0)
	switch {
	case i >= len(b):
		return errEnd
	case b[i] != '{':
		return errSyntax
	}
	for i = skipSpace(b, i+1); i < len(b) && b[i] != '}'; i = skipSpace(b, i) {
		if b[i] == ',' {
			i++
			continue
		}
		if b[i] != '"' {
			return errSyntax
		}
		end, err := skipString(b, i)
		if err != nil {
			return err
		}
		name := b[i+1 : end-1]
		if i = skipSpace(b, end); i >= len(b) {
			return errEnd
		}
		if b[i] != ':' {
			return errSyntax
		}
		start := skipSpace(b, i+1)
		if end, err = skipValue(b, start); err != nil {
			return err
		}
		if !f(string(name), b[start:end]) {
			return nil
		}
		i = end
	}
	if i >= len(b) {
		return errEnd
	}
	return nil
}

// elements calls f with the elements of a JSON array, until f returns an error.
func elements(b []byte, f func(value []byte) error) error {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return errSyntax
	}
	for i = skipSpace(b, i+1); i < len(b) && b[i] != ']'; i = skipSpace(b, i) {
		if b[i] == ',' {
			i++
			continue
		}
		end, err := skipValue(b, i)
		if err != nil {
			return err
		}
		if err := f(b[i:end]); err != nil {
			return err
		}
		i = end
	}
	if i >= len(b) {
		return errEnd
	}
	return nil
}

// text returns the text of a JSON string, and "" for anything else.
func text(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// metadata has the metadata of an object or of a list.
type metadata struct {
	namespace, name, uid, version, continues string
	typed                                    bool // the object has a kind
}

// parseMetadata returns the metadata of an object or of a list.
func parseMetadata(object []byte) (m metadata, err error) {
	found := false
	outer := members(object, func(name string, value []byte) bool {
		switch name {
		case "kind":
			m.typed = true
		case "metadata":
			found = true
			err = members(value, func(name string, value []byte) bool {
				switch name {
				case "namespace":
					m.namespace = text(value)
				case "name":
					m.name = text(value)
				case "uid":
					m.uid = text(value)
				case "resourceVersion":
					m.version = text(value)
				case "continue":
					m.continues = text(value)
				}
				return true
			})
		}
		return err == nil && !(found && m.typed)
	})
	switch {
	case err != nil:
		return m, err
	case outer != nil:
		return m, outer
	case !found:
		return m, errors.New("an object without metadata")
	}
	return m, nil
}
