// Package manifest splits a document of a manifest into its values.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Values returns the values of a document: of a sequence of JSON values each, or else the document itself, with the error of
// [CheckSingle].
func Values(text []byte) ([][]byte, error) {
	if all := SplitJSON(text); all != nil {
		return all, nil
	}
	return [][]byte{text}, CheckSingle(text)
}

// SplitJSON splits a sequence of JSON values. It returns nil if the text is no such sequence.
func SplitJSON(text []byte) [][]byte {
	var all [][]byte
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var value json.RawMessage
		err := decoder.Decode(&value)
		switch {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			return nil
		}
		all = append(all, value)
	}
}

// CheckSingle returns an error if a text has more than one YAML document, or a mapping with a key twice. The library that decodes
// an object would ignore all but the first document, and all but the last value.
func CheckSingle(text []byte) error {
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	var node yamlv3.Node
	if err := decoder.Decode(&node); err != nil {
		return nil // this error is better explained when the object is decoded
	}
	var ignored any
	if err := node.Decode(&ignored); err != nil {
		return err
	}
	err := decoder.Decode(&node)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errors.Join(errors.New("another document follows in it: a line with --- alone must be before each"), err)
}
