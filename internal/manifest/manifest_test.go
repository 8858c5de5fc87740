package manifest

import (
	"fmt"
	"testing"
)

// TestValues: the values of a document, or the error.
func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		"":                           `[""]`,
		"a: b\n":                     `["a: b\n"]`,
		"# a comment\n":              `["# a comment\n"]`,
		`"a": b`:                     `["\"a\": b"]`,
		`{"a": 1}` + " # a comment":  `["{\"a\": 1} # a comment"]`,
		`{"a": 1}`:                   `["{\"a\": 1}"]`,
		`{"a": 1}{"b": 2}` + "\n[3]": `["{\"a\": 1}" "{\"b\": 2}" "[3]"]`,
		`{"a": 1}` + "\n" + `{"b":`:  "error",
		"a: b\na: c\n":               "error",
	} {
		values, err := Values([]byte(text))
		got := fmt.Sprintf("%q", values)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s, want %s: %v", text, got, want, err)
		}
	}
}
