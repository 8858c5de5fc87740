package endpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"flyball.dev/internal/heaptest"
)

// laughs is YAML in which each line contains the previous line ten times.
func laughs(lines int) string {
	var b strings.Builder
	b.WriteString("l0: &l0 [x]\n")
	for n := 1; n <= lines; n++ {
		fmt.Fprintf(&b, "l%d: &l%d [%s*l%d]\n", n, n, strings.Repeat(fmt.Sprintf("*l%d,", n-1), 9), n-1)
	}
	return b.String()
}

// TestAliasesAreBounded sends YAML with aliases that would expand to more than a body may have. None may
// be expanded to find that out.
func TestAliasesAreBounded(t *testing.T) {
	const limit = 3 << 20
	long := "a: &a " + strings.Repeat("x", 60_000) + "\n"
	for _, tc := range []struct {
		name, body string
		check      func(error) bool // nil for a document that is accepted
	}{
		{"a long string, often", long + "b: [" + strings.Repeat("*a,", 20_000) + "*a]\n", errors.IsRequestEntityTooLargeError},
		{"a long string, as often as can be", long + "b: [" + strings.Repeat("*a,", 48) + "*a]\n", nil},
		{"a long string as a key", long + "b:\n" + strings.Repeat("- *a : 1\n", 1000), errors.IsRequestEntityTooLargeError},
		{"lists of lists", laughs(9), errors.IsRequestEntityTooLargeError},
		{"lists of lists, a few", laughs(2), nil},
		{"many lists of lists", laughs(100), errors.IsRequestEntityTooLargeError},
		{"merge keys", "a: &a {" + strings.Repeat("k: v, ", 1000) + "}\nb:\n" + strings.Repeat("- <<: [*a, *a, *a, *a]\n", 200), errors.IsRequestEntityTooLargeError},
		{"an anchor in itself", "a: &a [*a]\n", errors.IsBadRequest},
		{"an anchor in itself, further in", "a: &a {b: {c: [*a, 1]}}\n", errors.IsBadRequest},
		{"an unknown anchor", "a: [*b, &a 1]\n", errors.IsBadRequest},
		{"an anchor that is defined again", "a: &a [1]\nb: *a\nc: &a [2]\nd: *a\n", nil},
		{"YAML that is none", "a: [*, &b\n", errors.IsBadRequest},
		{"asterisks in a text", "a: '" + strings.Repeat("*a, &b", 10_000) + "'\n", nil},
		{"a document of the largest size without aliases", "a: |\n  " + strings.Repeat("-", limit-100) + "*\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body, meter := []byte(tc.body), heaptest.New(t)
			err := checkDocument(yamlType, body, limit)
			if allocated := meter.Allocated(); allocated > 16<<20+32*int64(len(body)) {
				t.Errorf("the check of %d bytes allocated %d", len(tc.body), allocated)
			}
			if tc.check == nil && err != nil || tc.check != nil && !tc.check(err) {
				t.Errorf("got %v", err)
			}
			if tc.check != nil {
				return
			}
			if _, err := yaml.YAMLToJSON([]byte(tc.body)); err != nil {
				t.Errorf("what is accepted cannot be decoded: %v", err)
			}
		})
	}
}

// FuzzYAMLShape compares the shape with the decoded document.
func FuzzYAMLShape(f *testing.F) {
	for _, seed := range []string{"a: &a [1, {b: x}]\nc: *a\n", "- &x y\n- *x\n- <<: {a: 1}\n", "? &k a\n: *k\n", "&a [*a]", "%YAML 1.1\n---\na: *b\n...\n",
		"a: !!binary *x", "'*': \"\\t*\"\n", "--- *\n", "a: *a\nb: &a 1\n", "\t*", "a: |\n *\n\tb", laughs(2), aliases(3), "&a\n- 1\n- *a"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		converted, err := yaml.YAMLToJSON(data)
		if err != nil || len(data) > 1000 {
			return
		}
		s, err := yamlShape(data)
		if err != nil {
			t.Fatalf("%q is YAML: %v", data, err)
		}
		var v any
		if !bytes.ContainsRune(data, '*') || !bytes.ContainsRune(data, '&') || json.Valid(data) || json.Unmarshal(converted, &v) != nil {
			return
		}
		if s.depth < depth(v) {
			t.Errorf("%q: %d levels, want %d: %s", data, s.depth, depth(v), converted)
		}
		if s.aliases && int64(len(converted)) > 6*s.size+16 { // six bytes for a character that JSON escapes
			t.Errorf("%q: size %d, JSON has %d", data, s.size, len(converted))
		}
	})
}
